//! The difference of two texts: a few lines around each change, with the words that changed.

use similar::{ChangeTag, TextDiff};

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is in both.
    Same,
    /// It is only in the old text.
    Removed,
    /// It is only in the new text.
    Added,
    /// Lines are left out here.
    Gap,
}

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What became of it.
    pub change: Change,
    /// Its number in the new text (in the old one for a removed line), from 1; 0 for a gap.
    pub number: usize,
    /// Its pieces, and whether each is a word that changed.
    pub pieces: Vec<(bool, String)>,
}

impl Line {
    /// The line without marks.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|(_, piece)| piece.as_str()).collect()
    }
}

/// The lines that differ, with `around` lines before and after each change.
pub fn lines(old: &str, new: &str, around: usize) -> Vec<Line> {
    let diff = TextDiff::from_lines(old, new);
    let mut out = Vec::new();
    for (at, group) in diff.grouped_ops(around).iter().enumerate() {
        if at > 0 {
            out.push(Line { change: Change::Gap, number: 0, pieces: Vec::new() });
        }
        for change in group.iter().flat_map(|op| diff.iter_inline_changes(op)) {
            let kind = match change.tag() {
                ChangeTag::Equal => Change::Same,
                ChangeTag::Delete => Change::Removed,
                ChangeTag::Insert => Change::Added,
            };
            let number = if kind == Change::Removed { change.old_index() } else { change.new_index() };
            let pieces =
                change.iter_strings_lossy().map(|(marked, text)| (marked, text.trim_end_matches('\n').to_owned()));
            let pieces = pieces.filter(|(_, text)| !text.is_empty()).collect();
            out.push(Line { change: kind, number: number.map_or(0, |number| number + 1), pieces });
        }
    }
    out
}

/// The difference as plain text, one line each, with `-`, `+` and line numbers.
pub fn plain(old: &str, new: &str) -> String {
    let shown = lines(old, new, 2).into_iter().map(|line| match line.change {
        Change::Gap => "     …".to_owned(),
        Change::Same => format!("{:>4}   {}", line.number, line.text()),
        Change::Removed => format!("{:>4} - {}", line.number, line.text()),
        Change::Added => format!("{:>4} + {}", line.number, line.text()),
    });
    shown.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_changed_are_marked_and_far_lines_left_out() {
        let old = "one\ntwo\nthree\nFind two stories\nfive\nsix\nseven\neight\nnine\nten";
        let new = old.replace("two stories", "three stories").replace("ten", "eleven");
        let lines = lines(old, &new, 1);
        let removed = lines.iter().find(|line| line.change == Change::Removed).expect("a line");
        assert_eq!(removed.number, 4);
        assert!(removed.pieces.iter().any(|(marked, text)| *marked && text == "two"), "{removed:?}");
        assert!(lines.iter().any(|line| line.change == Change::Gap));
        assert!(!lines.iter().any(|line| line.text() == "seven"));
        assert!(plain(old, &new).contains("   4 + Find three stories"));
    }
}
