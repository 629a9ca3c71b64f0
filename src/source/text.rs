//! Strings that know, for every offset of their value, where it stands in the file.

use std::ops::Range;

use super::{FileId, Span};

/// How a string was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// In single quotes (also TOML's literal strings).
    Single,
    /// In double quotes, with escapes (also TOML's basic strings).
    Double,
    /// A block that keeps its line breaks: `|`.
    Literal,
    /// A block whose lines are joined: `>`.
    Folded,
}

/// A piece of a string's value and the piece of the file that it comes from. Pieces of equal length correspond byte
/// by byte; others (an escape, a folded line break) correspond as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins in the value.
    pub value: u32,
    /// Its length in the value.
    pub value_len: u32,
    /// Where it begins in the file.
    pub file: u32,
    /// Its length in the file.
    pub file_len: u32,
}

/// A string of a file. Equality looks at the value only.
#[derive(Clone, Debug)]
pub struct Text {
    /// The value after quotes, escapes and folding.
    pub value: String,
    /// The whole scalar in the file, with quotes or block indicator.
    pub span: Span,
    /// How it was written.
    pub style: Style,
    segments: Vec<Segment>,
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Text {}

impl Text {
    /// A string whose value stands in the file byte for byte, from offset `at` on.
    pub fn verbatim(value: impl Into<String>, span: Span, style: Style, at: u32) -> Self {
        let value = value.into();
        let len = value.len() as u32;
        Self { value, span, style, segments: vec![Segment { value: 0, value_len: len, file: at, file_len: len }] }
    }

    /// A string made of segments in ascending order.
    pub fn with_segments(value: impl Into<String>, span: Span, style: Style, segments: Vec<Segment>) -> Self {
        Self { value: value.into(), span, style, segments }
    }

    /// The pieces that the value is made of.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The place in the file of a byte range of the value. An escape or a folded line break of which the range holds
    /// a part is covered whole; a range that is out of bounds is cut to the value. The result lies within
    /// [`span`](Self::span).
    pub fn span_of(&self, range: Range<usize>) -> Span {
        let len = self.value.len();
        let (start, end) = (range.start.min(len) as u32, range.end.clamp(range.start.min(len), len) as u32);
        let from = self.file_start(start);
        let to = if end > start { self.file_end(end) } else { from };
        let clamp = |at: u32| at.clamp(self.span.start, self.span.end);
        Span::new(self.span.file, clamp(from), clamp(to.max(from)))
    }

    /// The file offset of the value's byte `at`, as the start of something.
    fn file_start(&self, at: u32) -> u32 {
        let next = self.segments.partition_point(|segment| segment.value + segment.value_len <= at);
        match self.segments.get(next) {
            Some(segment) if at < segment.value => segment.file,
            Some(segment) if segment.value_len == segment.file_len => segment.file + (at - segment.value),
            Some(segment) => segment.file,
            None => self.segments.last().map_or(self.span.end, |segment| segment.file + segment.file_len),
        }
    }

    /// The file offset of the value's byte `at`, as the end of something that is not empty.
    fn file_end(&self, at: u32) -> u32 {
        let next = self.segments.partition_point(|segment| segment.value + segment.value_len < at);
        match self.segments.get(next) {
            Some(segment) if segment.value_len == segment.file_len => {
                segment.file + (at.max(segment.value) - segment.value)
            }
            Some(segment) => segment.file + segment.file_len,
            None => self.segments.last().map_or(self.span.end, |segment| segment.file + segment.file_len),
        }
    }

    /// A copy of part of the string that still knows its place, such as one name out of a list in a string.
    pub fn part(&self, range: Range<usize>) -> Text {
        let span = self.span_of(range.clone());
        let value = self.value.get(range.clone()).unwrap_or_default().to_owned();
        let (start, end) = (range.start as u32, range.start as u32 + value.len() as u32);
        let overlaps = |segment: &&Segment| segment.value < end && segment.value + segment.value_len > start;
        let cut = |segment: &Segment| {
            let (from, to) = (segment.value.max(start), (segment.value + segment.value_len).min(end));
            let mut piece = Segment { value: from - start, value_len: to - from, ..*segment };
            if segment.value_len == segment.file_len {
                piece.file += from - segment.value;
                piece.file_len = piece.value_len;
            }
            piece
        };
        let segments = self.segments.iter().filter(overlaps).map(cut).collect();
        Text { value, span, style: self.style, segments }
    }

    /// A string that stands in no file, for tests and values made by the program; its place is empty.
    pub fn unplaced(value: impl Into<String>) -> Self {
        Self { value: value.into(), span: Span::empty(FileId(0), 0), style: Style::Plain, segments: Vec::new() }
    }
}
