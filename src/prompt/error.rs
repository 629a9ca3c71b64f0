//! What can go wrong while a template is rendered or an expr is evaluated.

use std::fmt;
use std::ops::Range;

/// Why a text could not be rendered or an expr not be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderError {
    /// What went wrong, in one line.
    pub message: String,
    /// The file under `prompts/` in which it did; `None`: the text itself.
    pub file: Option<String>,
    /// Byte offsets in that text, where known.
    pub range: Option<Range<usize>>,
    /// The part of the text that failed, where known.
    pub excerpt: Option<String>,
    /// Whether the cause is a value that is missing.
    pub is_undefined: bool,
    /// The variables that mattered, with their values cut short.
    pub values: Box<[(String, String)]>,
}

impl RenderError {
    /// An error without a place.
    pub fn new(message: impl Into<String>) -> RenderError {
        RenderError {
            message: message.into(),
            file: None,
            range: None,
            excerpt: None,
            is_undefined: false,
            values: Box::default(),
        }
    }
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(excerpt) = &self.excerpt {
            write!(f, " in `{excerpt}`")?;
        }
        if let Some(file) = &self.file {
            write!(f, " of prompts/{file}")?;
        }
        for (index, (name, value)) in self.values.iter().enumerate() {
            write!(f, "{} {name} = {value}", if index == 0 { "; with" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for RenderError {}
