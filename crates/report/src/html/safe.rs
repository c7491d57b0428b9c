//! Escapes text and scripts for a page that neither loads nor sends anything.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// JSON for a `<script>` element: it cannot end the script or start a comment, and contains no line separators, which
/// scripts treat as line ends.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(value)?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// A policy that lets only these scripts run, whatever text the page contains, and forbids fetches by scripts and
/// styles.
pub fn policy(scripts: &[&str]) -> String {
    let hash = |script: &&str| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(script.as_bytes())));
    let scripts: Vec<String> = scripts.iter().map(hash).collect();
    format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        scripts.join(" ")
    )
}

/// Keeps only characters that all file systems accept in names.
pub fn file_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '-' };
    let name: String = text.chars().map(plain).take(60).collect();
    name.trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_cannot_close_its_script_element() {
        let text = json(&["</script><!--", "a&b", "\u{2028}"]).unwrap();
        assert_eq!(text, r#"["\u003c/script\u003e\u003c!--","a\u0026b","\u2028"]"#);
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap()[0], "</script><!--");
    }

    #[test]
    fn the_content_security_policy_identifies_scripts_by_hash() {
        // printf 'x' | openssl dgst -sha256 -binary | base64
        assert!(policy(&["x"]).contains("script-src 'sha256-LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE=';"));
        assert_eq!(file_name("../run 3/ü.json"), "run-3--.json");
    }
}
