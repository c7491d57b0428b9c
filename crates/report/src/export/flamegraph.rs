//! Flame graphs: inferno draws folded stacks as SVG.

use inferno::flamegraph::{Options, from_lines};

/// Reasons for not drawing a flame graph.
#[derive(Debug, thiserror::Error)]
pub enum Undrawn {
    #[error("it has no samples")]
    Empty,
    #[error("{0}")]
    Failed(#[from] std::io::Error),
}

/// An SVG with a script for zooming and searching, which loads nothing from the network. Widths are sample counts.
pub fn svg(folded: &[String], title: &str, subtitle: &str) -> Result<Vec<u8>, Undrawn> {
    if folded.is_empty() {
        return Err(Undrawn::Empty);
    }
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle.to_owned());
    options.count_name = "samples".into();
    // The output is deterministic.
    options.deterministic = true;
    let mut out = vec![];
    from_lines(&mut options, folded.iter().map(String::as_str), &mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_drawn_with_its_sample_count() {
        let folded = ["a;b 3".to_owned(), "a;<c> 1".to_owned()];
        let text = String::from_utf8(svg(&folded, "One & all", "4 samples").unwrap()).unwrap();
        for part in
            ["<title>a (4 samples, 100.00%)", "<title>b (3 samples, 75.00%)", "&lt;c&gt; (1 samples", "One &amp; all"]
        {
            assert!(text.contains(part), "'{part}' is missing in\n{text}");
        }
        assert!(matches!(svg(&[], "", ""), Err(Undrawn::Empty)));
    }
}
