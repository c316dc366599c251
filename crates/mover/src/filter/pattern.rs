//! A pattern in tokens.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Byte(u8),
    /// `?`
    One,
    /// `[...]`: the bytes it takes; never `/`.
    Set(Box<[bool; 256]>),
    /// `*`
    Any,
    /// `**`
    AnyDeep,
}

impl Token {
    pub(super) fn takes(&self, byte: u8) -> bool {
        match self {
            Token::Byte(own) => *own == byte,
            Token::One => byte != b'/',
            Token::Set(set) => set[usize::from(byte)],
            Token::Any | Token::AnyDeep => false,
        }
    }
}

/// Splits a pattern; `None` for an unclosed set.
pub(super) fn parse(pattern: &[u8]) -> Option<Vec<Token>> {
    let is_wild = pattern.iter().any(|byte| b"*?[".contains(byte));
    if !is_wild {
        return Some(pattern.iter().map(|&byte| Token::Byte(byte)).collect());
    }
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        tokens.push(match byte {
            b'*' => {
                let stars = rest.iter().take_while(|&&byte| byte == b'*').count();
                rest = &rest[stars..];
                if stars == 0 { Token::Any } else { Token::AnyDeep }
            }
            b'?' => Token::One,
            b'[' => {
                let (set, after) = parse_set(rest)?;
                rest = after;
                Token::Set(set)
            }
            b'\\' => match rest.split_first() {
                Some((&escaped, after)) => {
                    rest = after;
                    Token::Byte(escaped)
                }
                None => Token::Byte(b'\\'),
            },
            other => Token::Byte(other),
        });
    }
    Some(tokens)
}

/// Reads a set from behind its `[`; returns what stands behind its `]`.
fn parse_set(bytes: &[u8]) -> Option<(Box<[bool; 256]>, &[u8])> {
    let mut set = Box::new([false; 256]);
    let (negated, mut rest) = match bytes {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    let mut is_first = true;
    loop {
        let (&byte, after) = rest.split_first()?;
        if byte == b']' && !is_first {
            rest = after;
            break;
        }
        is_first = false;
        if let Some((class, after)) = rest.strip_prefix(b"[:").and_then(class) {
            for byte in (0..=255u8).filter(|&byte| class(byte)) {
                set[usize::from(byte)] = true;
            }
            rest = after;
            continue;
        }
        let (low, after) = set_member(rest)?;
        rest = after;
        let high = match rest {
            [b'-', next, ..] if *next != b']' => {
                let (high, after) = set_member(&rest[1..])?;
                rest = after;
                high
            }
            _ => low,
        };
        for byte in low..=high {
            set[usize::from(byte)] = true;
        }
    }
    if negated {
        set.iter_mut().for_each(|taken| *taken = !*taken);
    }
    set[usize::from(b'/')] = false;
    Some((set, rest))
}

fn set_member(bytes: &[u8]) -> Option<(u8, &[u8])> {
    match bytes {
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

type Class = fn(u8) -> bool;

/// `alpha:]` and so on, from behind the `[:`.
fn class(bytes: &[u8]) -> Option<(Class, &[u8])> {
    const CLASSES: [(&[u8], Class); 12] = [
        (b"alnum", |b| b.is_ascii_alphanumeric()),
        (b"alpha", |b| b.is_ascii_alphabetic()),
        (b"blank", |b| b == b' ' || b == b'\t'),
        (b"cntrl", |b| b.is_ascii_control()),
        (b"digit", |b| b.is_ascii_digit()),
        (b"graph", |b| b.is_ascii_graphic()),
        (b"lower", |b| b.is_ascii_lowercase()),
        (b"print", |b| b.is_ascii_graphic() || b == b' '),
        (b"punct", |b| b.is_ascii_punctuation()),
        (b"space", |b| b.is_ascii_whitespace() || b == 0x0b),
        (b"upper", |b| b.is_ascii_uppercase()),
        (b"xdigit", |b| b.is_ascii_hexdigit()),
    ];
    CLASSES.iter().find_map(|(name, class)| {
        let rest = bytes.strip_prefix(*name)?.strip_prefix(b":]")?;
        Some((*class, rest))
    })
}
