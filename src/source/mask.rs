//! Leaving out the part of a file that is wrong: its bytes become blanks, so that all offsets stay.

use std::ops::Range;

/// What is wrong in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Culprit {
    /// A place in the line where the wrong part begins.
    pub(super) offset: usize,
    /// Whether the key goes too. Otherwise the key stays and its value becomes a hole.
    pub(super) whole_line: bool,
}

/// A line taken apart: `  - key: value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The line without its break.
    pub(super) line: Range<usize>,
    /// The column of the key, or of the last `-` when there is no key; lines further in belong to this one.
    pub(super) column: usize,
    /// The least column of lines that go on with the value.
    pub(super) inner: usize,
    /// The key, as it is spelled.
    pub(super) key: Option<Range<usize>>,
    /// After the `:` or the last `-`; the line's first character that is not blank when there is neither.
    pub(super) after: usize,
    /// The value without blanks around it.
    pub(super) value: Range<usize>,
}

impl Parts {
    /// Takes the line apart that holds `offset`.
    pub(super) fn at(text: &str, offset: usize) -> Parts {
        let line = line_at(text, offset);
        let bytes = text.as_bytes();
        let blanks =
            |from: usize| from + bytes[from..line.end].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let mut at = blanks(line.start);
        let mut column = at - line.start;
        let mut after = at;
        let mut inner = column;
        while at < line.end
            && matches!(bytes[at], b'-' | b'?')
            && matches!(bytes.get(at + 1), None | Some(b' ' | b'\n' | b'\r'))
        {
            column = at - line.start;
            inner = column + 1;
            after = at + 1;
            at = blanks(at + 1);
        }
        let mut key = None;
        if let Some(end) = key_end(&text[at..line.end]) {
            column = at - line.start;
            key = Some(at..at + end.0);
            inner = column + 1;
            after = at + end.1;
            at = blanks(after);
        }
        let value_end = at + text[at..line.end].trim_end().len();
        Parts { line, column, inner, key, after, value: at..value_end }
    }
}

/// The line that holds `offset`, without its break.
pub(super) fn line_at(text: &str, offset: usize) -> Range<usize> {
    let offset = offset.min(text.len());
    let before = &text.as_bytes()[..offset];
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let start = if start == 0 && text.starts_with('\u{feff}') { 3 } else { start };
    let end = text.as_bytes()[offset..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| offset + at);
    let end = if end > start && text.as_bytes()[end - 1] == b'\r' { end - 1 } else { end };
    start..end.max(start)
}

/// Where a key ends and what follows its `:`, relative to `text`; `None` when it does not begin with `key:`.
fn key_end(text: &str) -> Option<(usize, usize)> {
    let ends = |at: usize| matches!(text.as_bytes().get(at), None | Some(b' ' | b'\t'));
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let close = 1 + text[1..].find(quote)?;
        let colon = close + 1 + text[close + 1..].find(|c: char| c != ' ')?;
        return (text[colon..].starts_with(':') && ends(colon + 1)).then_some((close + 1, colon + 1));
    }
    if text.starts_with(['{', '[', '#', '&', '*', '!', '|', '>', '%', '@', '`']) {
        return None;
    }
    let colon = text.match_indices(':').map(|(at, _)| at).find(|at| ends(at + 1))?;
    let key = text[..colon].trim_end();
    (!key.is_empty() && !key.contains(" #")).then_some((key.len(), colon + 1))
}

/// The tabs and blanks before the first character of the line at `offset`, when a tab is among them.
pub(super) fn leading_tabs(text: &str, offset: usize) -> Range<usize> {
    let line = line_at(text, offset);
    let blank = text.as_bytes()[line.clone()].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let lead = line.start..line.start + blank;
    let content = lead.end < line.end;
    if content && text[lead.clone()].contains('\t') { lead } else { line.start..line.start }
}

/// A text with parts left out.
#[derive(Debug)]
pub(super) struct Mask {
    original: String,
    bytes: Vec<u8>,
    holes: Vec<Range<usize>>,
    gaps: Vec<usize>,
    tabs: bool,
}

impl Mask {
    /// The whole text.
    pub(super) fn new(text: &str) -> Self {
        Self {
            original: text.to_owned(),
            bytes: text.as_bytes().to_vec(),
            holes: Vec::new(),
            gaps: Vec::new(),
            tabs: false,
        }
    }

    /// The text as it is read: as long as the file.
    pub(super) fn text(&self) -> String {
        // Only whole characters are replaced, and by ASCII; the fallback cannot happen.
        String::from_utf8(self.bytes.clone()).unwrap_or_default()
    }

    /// Whether an empty value at `start..end` is one that was left out, there or after nothing but blanks.
    pub(super) fn is_hole(&self, start: usize, end: usize) -> bool {
        let blank = |hole: &Range<usize>| self.bytes[start..hole.start].iter().all(u8::is_ascii_whitespace);
        let here = |hole: &Range<usize>| start <= hole.end && (hole.start <= start || blank(hole));
        start == end && self.holes.iter().any(here)
    }

    /// Where whole lines were left out, ascending.
    pub(super) fn gaps(&self) -> &[usize] {
        &self.gaps
    }

    /// Whether a part that was left out holds `text`.
    pub(super) fn hides(&self, text: &str) -> bool {
        self.holes.iter().any(|hole| self.original.get(hole.clone()).is_some_and(|part| part.contains(text)))
    }

    /// Whether tabs were replaced.
    pub(super) fn tabs_replaced(&self) -> bool {
        self.tabs
    }

    /// Makes blanks of the tabs that lines begin with; `false` when there are none.
    pub(super) fn replace_tabs(&mut self) -> bool {
        let mut leading = true;
        let before = self.bytes.clone();
        for byte in &mut self.bytes {
            match byte {
                b'\t' if leading => *byte = b' ',
                b'\n' => leading = true,
                b' ' => {}
                _ => leading = false,
            }
        }
        self.tabs = true;
        before != self.bytes
    }

    /// Leaves out the culprit's value or line, with the lines that belong to it. `false` when nothing was left.
    pub(super) fn cover(&mut self, culprit: &Culprit) -> bool {
        let parts = Parts::at(&self.original, culprit.offset);
        let end = self.block_end(&parts, if culprit.whole_line { parts.column + 1 } else { parts.inner });
        let value = parts.after..end;
        if !culprit.whole_line && self.blank(value.clone()) {
            // The parser puts an empty value before or after the `:`.
            self.holes.push(parts.key.map_or(value.start, |key| key.end)..value.end);
            return true;
        }
        let line = parts.line.start..end;
        if !self.blank(line.clone()) {
            return false;
        }
        let at = self.gaps.partition_point(|gap| *gap < line.start);
        self.gaps.insert(at, line.start);
        self.holes.push(line);
        true
    }

    /// The end of the lines that go on with a line, from column `inner` on, and of closing brackets after them.
    fn block_end(&self, parts: &Parts, inner: usize) -> usize {
        let mut end = parts.line.end;
        let mut at = next_line(&self.original, end);
        while let Some(start) = at {
            let line = line_at(&self.original, start);
            let text = &self.original[line.clone()];
            let trimmed = text.trim_start();
            let column = text.len() - trimmed.len();
            let closing = trimmed.starts_with([']', '}']) && trimmed.trim_end_matches([']', '}', ',', ' ']).is_empty();
            if !trimmed.is_empty() && column < inner && !closing {
                break;
            }
            if !trimmed.is_empty() {
                end = line.end;
            }
            at = next_line(&self.original, line.end);
        }
        end
    }

    /// Makes blanks of all characters but line breaks; `false` when all were blank.
    fn blank(&mut self, range: Range<usize>) -> bool {
        let Some(part) = self.bytes.get_mut(range) else { return false };
        let mut changed = false;
        for byte in part.iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r' | b' ')) {
            *byte = b' ';
            changed = true;
        }
        changed
    }
}

/// Where the line after the one that ends at `end` begins.
pub(super) fn next_line(text: &str, end: usize) -> Option<usize> {
    let at = text.as_bytes()[end..].iter().position(|byte| *byte == b'\n')? + end + 1;
    (at < text.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(line: &str) -> (usize, Option<&str>, &str) {
        let parts = Parts::at(line, line.len());
        (parts.column, parts.key.map(|key| &line[key]), &line[parts.value])
    }

    #[test]
    fn lines_are_taken_apart() {
        assert_eq!(parts("  - when: a: b  "), (4, Some("when"), "a: b"));
        assert_eq!(parts("- - x"), (2, None, "x"));
        assert_eq!(parts("\"a b\" : c"), (0, Some("\"a b\""), "c"));
        assert_eq!(parts("a:1"), (0, None, "a:1"));
        assert_eq!(parts("a:"), (0, Some("a"), ""));
        assert_eq!(parts("{{ x }}: y"), (0, None, "{{ x }}: y"));
    }

    #[test]
    fn a_value_goes_with_the_lines_further_in_and_offsets_stay() {
        let text = "é: [1,\n  2\n]\nb: 1\n";
        let mut mask = Mask::new(text);
        assert!(mask.cover(&Culprit { offset: 4, whole_line: false }));
        assert_eq!(mask.text(), "é:    \n   \n \nb: 1\n");
        assert!(mask.is_hole(3, 3) && !mask.is_hole(16, 16));
        assert!(mask.cover(&Culprit { offset: 14, whole_line: true }));
        assert_eq!(mask.text().trim_end(), "é:");
        assert_eq!(mask.gaps(), [14]);
        assert!(!mask.cover(&Culprit { offset: 14, whole_line: true }));
    }
}
