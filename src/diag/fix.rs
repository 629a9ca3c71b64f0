//! Applying corrections to a file's text.

use super::Fix;

/// `text` with the corrections of one file applied. Of two that overlap the earlier wins; one that does not fit the
/// text is left out.
pub fn apply(text: &str, fixes: &[Fix]) -> String {
    let mut ordered: Vec<&Fix> = fixes.iter().collect();
    ordered.sort_by_key(|fix| (fix.span.start, fix.span.end));
    ordered.dedup();
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for fix in ordered {
        let range = fix.span.range();
        if range.start < done || text.get(range.clone()).is_none() {
            continue;
        }
        out.push_str(text.get(done..range.start).unwrap_or_default());
        out.push_str(&fix.replacement);
        done = range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{FileId, Span};

    fn fix(start: u32, end: u32, replacement: &str) -> Fix {
        Fix { span: Span::new(FileId(0), start, end), replacement: replacement.to_owned() }
    }

    #[test]
    fn fixes_apply_in_order_and_never_overlap() {
        assert_eq!(apply("a: b\n", &[fix(3, 4, "c"), fix(0, 1, "x")]), "x: c\n");
        assert_eq!(apply("abcd", &[fix(0, 3, "x"), fix(2, 4, "y")]), "xd");
        assert_eq!(apply("é", &[fix(1, 2, "x"), fix(9, 12, "y")]), "é");
        assert_eq!(apply("ab", &[fix(1, 1, "-"), fix(1, 1, "-")]), "a-b");
    }
}
