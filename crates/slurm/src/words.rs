//! Splits options in a single string like a shell: quotes and backslashes, but nothing else.

/// The words. Fails on an unterminated quote.
pub fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => match chars.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err(format!("'{text}' ends with a backslash")),
            },
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(format!("'{text}' has an unclosed quote"));
    }
    words.extend(word);
    Ok(words)
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_like_in_a_shell() {
        for (text, words) in [
            ("", &[][..]),
            ("  --partition=a  -A b ", &["--partition=a", "-A", "b"]),
            ("--comment='a b' \"c d\"e ''", &["--comment=a b", "c de", ""]),
            (r#"a\ b "c\"d" 'e\f'"#, &["a b", "c\"d", r"e\f"]),
        ] {
            assert_eq!(split(text).as_deref(), Ok(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()[..]));
        }
        assert!(split("a 'b").is_err() && split("a\\").is_err());
    }

    #[test]
    fn a_quoted_word_is_split_back_unmodified() {
        for word in ["a", "", "a b", "it's", "$(x)", "a\"b", "--file=/x y"] {
            assert_eq!(split(&quoted(word)), Ok(vec![word.to_owned()]));
        }
        assert_eq!(quoted("--seed=3"), "--seed=3");
    }
}
