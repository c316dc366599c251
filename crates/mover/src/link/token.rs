//! Tokens: what an identity provider makes for somebody, and a server takes for who its holder is. A secret: whoever
//! has one may pass for its holder until it ends.
//!
//! Here it is text and no more. Who made it, for whom and until when the server finds out (`thalweg-tokens`).

use super::secret_file;
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use std::fmt;
use std::path::Path;
use thalweg_wire::limits::TOKEN_BYTES_MAX;
use zeroize::Zeroizing;

/// See the module. It is wiped from memory when it goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Zeroizing<String>);

/// Where a client has the token that it shows.
pub trait TokenSource: fmt::Debug + Send + Sync {
    /// The token as it is now: it is asked for again with each control connection, and from time to time.
    ///
    /// # Errors
    /// `Usage` if there is none; what is wrong with it, or with its file.
    fn token(&self) -> Result<Token>;

    /// Who makes tokens that the server takes, for messages.
    fn issuers(&self) -> String;

    /// Where the last token was, for messages.
    fn source(&self) -> String;
}

impl Token {
    /// Takes it from bytes, without white space around it.
    ///
    /// # Errors
    /// `Usage` for what is none: empty, longer than [`TOKEN_BYTES_MAX`], or not of visible ASCII characters.
    pub fn from_bytes(bytes: &[u8]) -> Result<Token> {
        let bytes = bytes.trim_ascii();
        let text = std::str::from_utf8(bytes).ok();
        let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
        match text {
            Some(text) if (1..=TOKEN_BYTES_MAX).contains(&text.len()) => {
                Ok(Token(Zeroizing::new(text.to_owned())))
            }
            _ => {
                let cause = format!("it is no token: one word of at most {TOKEN_BYTES_MAX} bytes");
                Err(Failure::new(FailureKind::Usage, READ, cause).because(Reason::TokenNotTaken))
            }
        }
    }

    /// Reads it from a file.
    ///
    /// # Errors
    /// `Permission` if others may read the file or it belongs to somebody else, `Usage` if it holds no token, else what
    /// the file system said.
    pub fn read(path: &Path) -> Result<Token> {
        let bytes = secret_file::read(path, TOKEN_BYTES_MAX + 2)?;
        Token::from_bytes(&bytes).map_err(|failure| failure::at_path(failure, path))
    }

    /// Its text. A secret.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its bytes: not more than [`TOKEN_BYTES_MAX`].
    pub(super) fn length(&self) -> u16 {
        u16::try_from(self.0.len()).unwrap_or(u16::MAX)
    }
}

/// What fails where a token is no token.
const READ: &str = "read the token";

/// Without the text.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_is_one_word_and_debug_does_not_show_it() {
        let token = Token::from_bytes(b" eyJhbGciOiJSUzI1NiJ9.e30.c2ln\n").unwrap();
        assert_eq!(token.as_str(), "eyJhbGciOiJSUzI1NiJ9.e30.c2ln");
        assert_eq!(format!("{token:?}"), "Token(29 bytes)");
        let longest = vec![b'x'; TOKEN_BYTES_MAX];
        assert!(Token::from_bytes(&longest).is_ok());
        let too_long = vec![b'x'; TOKEN_BYTES_MAX + 1];
        let odd: [&[u8]; 7] = [b"", b" \n", b"two words", b"two\nlines", b"a\x1b[31m", b"\xff", &too_long];
        for odd in odd {
            assert!(Token::from_bytes(odd).is_err(), "{} bytes", odd.len());
        }
    }

    #[test]
    fn a_token_that_others_may_read_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("token");
        std::fs::write(&path, "secret-token\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let failure = Token::read(&path).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Permission);
        assert!(!failure.to_string().contains("secret-token"), "{failure}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Token::read(&path).unwrap().as_str(), "secret-token");
    }
}
