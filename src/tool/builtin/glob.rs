//! Patterns of paths: `*` within a name, `**` over directories, `?`, `[a-z]`, `{a,b}`.

use regex::{Regex, RegexBuilder};

/// The largest compiled pattern, in bytes.
pub(crate) const REGEX_BYTES_MAX: usize = 1024 * 1024;

/// A pattern of paths. Without a slash it is about the last name alone, at any depth.
#[derive(Clone, Debug)]
pub(crate) struct Glob(Regex);

impl Glob {
    /// Reads a pattern.
    pub(crate) fn new(pattern: &str) -> Result<Glob, String> {
        let pattern = pattern.trim().trim_start_matches("./");
        let mut text = String::from("^");
        if !pattern.contains('/') {
            text.push_str("(?:.*/)?");
        }
        translate(pattern, &mut text)?;
        text.push('$');
        let regex = RegexBuilder::new(&text).size_limit(REGEX_BYTES_MAX).build();
        regex.map(Glob).map_err(|_| format!("`{pattern}` is no pattern of paths; write one such as `src/**/*.md`"))
    }

    /// Whether a path with `/` between its names fits.
    pub(crate) fn fits(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

fn translate(pattern: &str, text: &mut String) -> Result<(), String> {
    let mut chars = pattern.chars().peekable();
    let mut braces = 0usize;
    while let Some(c) = chars.next() {
        match c {
            '*' if chars.peek() == Some(&'*') => {
                chars.next();
                if chars.peek() == Some(&'/') {
                    chars.next();
                    text.push_str("(?:.*/)?");
                } else {
                    text.push_str(".*");
                }
            }
            '*' => text.push_str("[^/]*"),
            '?' => text.push_str("[^/]"),
            '[' => {
                let set: String = chars.by_ref().take_while(|c| *c != ']').collect();
                let (not, set) = set.strip_prefix(['!', '^']).map_or(("", set.as_str()), |set| ("^", set));
                if set.is_empty() {
                    return Err(format!("`[` is not closed in `{pattern}`"));
                }
                let set = set.replace('\\', "\\\\").replace('[', "\\[").replace('&', "\\&").replace('~', "\\~");
                text.push_str(&format!("[{not}{set}]"));
            }
            '{' => {
                braces += 1;
                text.push_str("(?:");
            }
            '}' if braces > 0 => {
                braces -= 1;
                text.push(')');
            }
            ',' if braces > 0 => text.push('|'),
            other => text.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    if braces > 0 { Err(format!("`{{` is not closed in `{pattern}`")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_other_tools() {
        for (pattern, path, fits) in [
            ("*.md", "docs/a.md", true),
            ("*.md", "a.md", true),
            ("docs/*.md", "docs/a.md", true),
            ("docs/*.md", "docs/x/a.md", false),
            ("docs/**/*.md", "docs/a.md", true),
            ("docs/**/*.md", "docs/x/y/a.md", true),
            ("docs/**", "docs/x/y", true),
            ("**/a.md", "a.md", true),
            ("a?.{md,txt}", "ab.txt", true),
            ("a?.{md,txt}", "ab.rs", false),
            ("[a-c].md", "b.md", true),
            ("[!a-c].md", "b.md", false),
            ("a.md", "aXmd", false),
            ("./a.md", "x/a.md", true),
            ("(a+)", "(a+)", true),
        ] {
            assert_eq!(Glob::new(pattern).unwrap().fits(path), fits, "{pattern} {path}");
        }
        assert!(Glob::new("[abc").is_ok() && Glob::new("[]").is_err() && Glob::new("{a,b").is_err());
    }
}
