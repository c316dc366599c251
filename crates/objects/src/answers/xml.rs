//! As much of XML as stores speak: elements, words in them, entities. Attributes and namespaces are passed over; a
//! document that brings definitions of its own is refused.
//!
//! Bounded by constants and by the length of the text: whoever reads it decides how long that may be.

use std::borrow::Cow;

/// Elements that one answer may have: a thousand objects with twenty words each, and some.
const ELEMENTS_MAX: usize = 50_000;
/// How deep they may stand in each other.
const DEPTH_MAX: usize = 16;

/// An element with what stands in it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    /// Without the prefix of a namespace.
    pub name: &'a str,
    /// The words that stand in it, and in none below it.
    pub words: Cow<'a, str>,
    /// In their order.
    pub below: Vec<Element<'a>>,
}

impl<'a> Element<'a> {
    /// All of this name that stand directly in it.
    pub fn all(&self, name: &'static str) -> impl Iterator<Item = &Element<'a>> {
        self.below.iter().filter(move |element| element.name == name)
    }

    /// The first of them.
    pub fn first(&self, name: &'static str) -> Option<&Element<'a>> {
        self.all(name).next()
    }

    /// The words of the first of them, as they are.
    pub fn words_of(&self, name: &'static str) -> Option<&str> {
        self.first(name).map(|element| &*element.words)
    }

    /// The same as a number.
    pub fn number_of(&self, name: &'static str) -> Option<u64> {
        self.words_of(name)?.trim().parse().ok()
    }
}

/// The outermost element of `text`.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn parse(text: &str) -> Result<Element<'_>, &'static str> {
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut open: Vec<Element<'_>> = Vec::new();
    let mut elements = 0;
    loop {
        let (before, markup) = rest.split_at(rest.find('<').ok_or("it ends in the middle")?);
        match open.last_mut() {
            Some(element) => add(&mut element.words, unescape(before)?),
            None if before.trim().is_empty() => {}
            None => return Err("it is no XML"),
        }
        if let Some(comment) = markup.strip_prefix("<!--") {
            rest = comment.split_once("-->").ok_or("a comment does not end")?.1;
            continue;
        }
        if let Some(raw) = markup.strip_prefix("<![CDATA[") {
            let (raw, after) = raw.split_once("]]>").ok_or("raw words do not end")?;
            add(&mut open.last_mut().ok_or("it is no XML")?.words, Cow::Borrowed(raw));
            rest = after;
            continue;
        }
        if markup.starts_with("<?") {
            rest = markup.split_once("?>").ok_or("an instruction does not end")?.1;
            continue;
        }
        if markup.starts_with("<!") {
            return Err("it brings definitions");
        }
        let end = end_of_tag(markup).ok_or("a tag does not end")?;
        let tag = &markup[1..end];
        rest = &markup[end + 1..];
        let closed = if let Some(name) = tag.strip_prefix('/') {
            let element = open.pop().ok_or("it ends what it did not begin")?;
            if local(name) != element.name {
                return Err("its tags cross");
            }
            element
        } else {
            elements += 1;
            if elements > ELEMENTS_MAX {
                return Err("it has too many elements");
            }
            let name = local(tag);
            if name.is_empty() {
                return Err("a tag has no name");
            }
            let element = Element { name, ..Element::default() };
            if !tag.ends_with('/') {
                if open.len() == DEPTH_MAX {
                    return Err("its elements stand too deep");
                }
                open.push(element);
                continue;
            }
            element
        };
        match open.last_mut() {
            Some(outer) => outer.below.push(closed),
            None => return Ok(closed),
        }
    }
}

/// Where the tag at the beginning ends: its attributes may have the mark in quotes.
fn end_of_tag(markup: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in markup.bytes().enumerate() {
        match (byte, quote) {
            (b'>', None) => return Some(at),
            (b'"' | b'\'', None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
    }
    None
}

/// The name in a tag, without prefix and attributes.
fn local(tag: &str) -> &str {
    let name = tag.split([' ', '\t', '\r', '\n', '/']).next().unwrap_or_default();
    name.split_once(':').map_or(name, |(_, name)| name)
}

fn add<'a>(words: &mut Cow<'a, str>, more: Cow<'a, str>) {
    if words.is_empty() {
        *words = more;
    } else if !more.is_empty() {
        words.to_mut().push_str(&more);
    }
}

fn unescape(text: &str) -> Result<Cow<'_, str>, &'static str> {
    if !text.contains('&') {
        return Ok(Cow::Borrowed(text));
    }
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, entity)) = rest.split_once('&') {
        words.push_str(before);
        let (entity, after) = entity.split_once(';').ok_or("an entity does not end")?;
        words.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                let number = entity.strip_prefix('#').ok_or("it has an entity of its own")?;
                let code = match number.strip_prefix('x') {
                    Some(digits) => u32::from_str_radix(digits, 16),
                    None => number.parse(),
                };
                code.ok().and_then(char::from_u32).ok_or("an entity is no character")?
            }
        });
        rest = after;
    }
    words.push_str(rest);
    Ok(Cow::Owned(words))
}

/// Words as they may stand in an element.
pub(crate) fn escape(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for character in words.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            // A reader makes a plain one a line's end.
            '\r' => text.push_str("&#13;"),
            other => text.push(other),
        }
    }
    text
}

/// Whether XML can say this at all.
pub(crate) fn is_sayable(words: &str) -> bool {
    let is_sayable = |c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    words.chars().all(is_sayable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_words_and_entities_are_read() {
        let text = "<?xml version=\"1.0\"?>\n<!-- c --><s3:List xmlns=\"http://x/>\"><Key>a &lt;b&gt; &amp;\
                    &#x41;&#66;</Key><Key><![CDATA[<raw>]]></Key><Empty/><Empty /></s3:List>";
        let list = parse(text).unwrap();
        assert_eq!(list.name, "List");
        let keys = list.all("Key").map(|key| &*key.words).collect::<Vec<_>>();
        assert_eq!(keys, ["a <b> &AB", "<raw>"]);
        assert_eq!(list.all("Empty").count(), 2);
        assert_eq!((list.words_of("Empty"), list.words_of("None")), (Some(""), None));
    }

    #[test]
    fn what_is_cut_crossed_deep_or_brings_definitions_is_refused() {
        let deep = "<a>".repeat(DEPTH_MAX + 1);
        let many = format!("<a>{}</a>", "<b/>".repeat(ELEMENTS_MAX + 1));
        for bad in [
            "",
            "words",
            "<a>",
            "<a><b></a></b>",
            "</a>",
            "<a",
            "<>",
            "<a>&nbsp;</a>",
            "<a>&#xd800;</a>",
            "<a>&#x110000;</a>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
            &deep,
            &many,
        ] {
            assert!(parse(bad).is_err(), "{}", &bad[..bad.len().min(40)]);
        }
    }

    proptest! {
        #[test]
        fn noise_is_refused_or_read_and_never_a_panic(text in "[<>/!?&;#xa0\"' \\-\\[\\]C]{0,64}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_text_is_refused_or_read_and_never_a_panic(text in any::<String>()) {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_escaped_is_read_back(words in any::<String>()) {
            let text = format!("<a>{}</a>", escape(&words));
            prop_assert_eq!(parse(&text).unwrap().words.into_owned(), words);
        }
    }
}
