//! The names of all diagnostics. Each has a page `codes/<name>.md`: what and why, an example that gives it, the cure.
//!
//! To add one: one line here in alphabetical order, and its page beside the others.

/// A diagnostic that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Its name, such as `duplicate-key`.
    pub name: &'static str,
    /// What it says, in one line.
    pub summary: &'static str,
    /// Its page, in Markdown.
    pub page: &'static str,
}

macro_rules! codes {
    ($($name:literal: $summary:literal,)*) => {
        /// All diagnostics, alphabetically.
        pub const CODES: &[Code] = &[
            $(Code { name: $name, summary: $summary, page: include_str!(concat!("codes/", $name, ".md")) },)*
        ];
    };
}

codes! {
    "abstract-output": "an output of an abstract type that has no subtype",
    "alias-bomb": "aliases make the file expand past a million values",
    "bad-default": "a default that does not fit its type",
    "bad-duration": "something that is not a duration",
    "bad-env": "a reference to an environment variable that is not well formed",
    "bad-glob": "something that is not a pattern of paths",
    "bad-goal": "a goal whose output is not one type",
    "bad-header": "a name that no HTTP header has",
    "bad-import": "an import of what is no module",
    "bad-indentation": "a line begins in a column that does not fit",
    "bad-name": "a name of the wrong form",
    "bad-openapi": "a file that is no OpenAPI document that can be used",
    "bad-pattern": "something that is not a regular expression",
    "bad-planner": "a model for a planner that asks none",
    "bad-schema": "something that is not a JSON Schema",
    "bad-script": "a script that cannot be played",
    "bad-skill": "a skill whose `SKILL.md` is not as the format wants it",
    "bad-supertype": "a supertype without fields",
    "bad-type": "something that is not a type",
    "bad-url": "a text that is not the address of a server",
    "colon-in-text": "`: ` within a text without quotes",
    "comma-in-text": "a comma within brackets splits a text in two",
    "command-line": "a command that cannot be done as it was asked for",
    "comment-in-text": "` #` within a text without quotes begins a comment",
    "condition-cycle": "conditions that depend on themselves",
    "constant-condition": "a condition that nothing changes",
    "contradiction": "two keys that cannot hold together",
    "dead-action": "an action that can never run",
    "discriminator-clash": "a field with the name of the discriminator",
    "duplicate-key": "a mapping has a key twice",
    "duplicate-name": "two declarations of one name",
    "duplicate-value": "a list that names a value twice",
    "empty-range": "two limits leave no value",
    "escape-in-quotes": "a backslash in double quotes that is no escape",
    "expr-syntax": "an expr that cannot be read",
    "field-conflict": "a field that two types declare differently",
    "file-not-found": "a file that is named is not there",
    "group-cycle": "a tool group that contains itself",
    "guardrail-never": "a guardrail that never looks at anything",
    "import-cycle": "files that import one another in a circle",
    "impossible-comparison": "a comparison that never holds",
    "list-brackets": "`Person[]` where the language has `list<Person>`",
    "long-reference": "a reference that makes prompts very long",
    "merge-key": "a YAML merge key (`<<`)",
    "misplaced-env": "an environment variable where none can be used",
    "misplaced-question-mark": "a `?` on the wrong side",
    "misplaced-section": "a section in the wrong kind of file",
    "missing-argument": "a call that leaves out what is required",
    "missing-body": "an action or tool without a body",
    "missing-colon": "a line without `: ` where a key is expected",
    "missing-env": "an environment variable that is not set",
    "missing-field": "data that leaves out a required field",
    "missing-key": "a key that is required",
    "missing-space": "a `:` without a space after it",
    "nested-too-deep": "bodies nested too deep",
    "no-description": "a tool without a description",
    "no-goal": "an agent without a goal",
    "non-finite-number": "infinity or not-a-number",
    "non-string-key": "a key that YAML does not read as a string",
    "not-utf8": "a file that is not UTF-8 text",
    "one-word-command": "a command line in one word",
    "optional-unguarded": "a value that may be absent is used as if it were there",
    "out-of-range": "a number outside its range",
    "path-escapes": "a path that leads out of the project",
    "quotes-in-quotes": "quotes within quotes of the same kind",
    "reserved-name": "a word of the language as a name",
    "role-cycle": "roles that name one another in a circle",
    "several-documents": "more than one YAML document in a file",
    "syntax": "something that is not YAML",
    "tab-indentation": "tabs as indentation",
    "template-cycle": "templates that draw one another in without end",
    "template-syntax": "a template that cannot be read",
    "text-after-quotes": "a text that goes on after its quotes",
    "toml-key": "a TOML key that needs quotes",
    "toml-syntax": "something that is not TOML",
    "too-deep": "lists and mappings nested deeper than 64",
    "too-large": "a file of more than 4 MiB",
    "too-many-nodes": "a file with more than a million values",
    "too-nested": "facades that nest too deep",
    "tool-collision": "two different tools of one name",
    "two-bodies": "an action with two bodies",
    "two-forms": "one thing given in two ways",
    "type-cycle": "a type that is its own supertype, member or alias",
    "type-mismatch": "a value of a type that does not fit",
    "unclosed-bracket": "a `[` or `{` that is not closed",
    "unclosed-quotes": "a quote that is not closed",
    "unfold-cycle": "an unfolding tool that reveals itself",
    "unknown-action": "an action that is not declared",
    "unknown-agent": "an agent that is not in the project",
    "unknown-alias": "a YAML alias without its anchor",
    "unknown-block": "a block that no extended template has",
    "unknown-condition": "a condition that is not declared",
    "unknown-field": "a field that the type does not have",
    "unknown-filter": "a filter that does not exist",
    "unknown-fixture": "a fixture of tests that is not declared",
    "unknown-function": "a function or method that does not exist",
    "unknown-group": "a tool group that is not declared",
    "unknown-guardrail": "a guardrail that is not declared",
    "unknown-input": "an input that the agent does not have",
    "unknown-key": "a key that is not known here",
    "unknown-macro": "a macro that an imported file does not have",
    "unknown-persona": "a persona that is not declared",
    "unknown-provider": "a provider that is neither declared nor known",
    "unknown-reference": "a reference that is not declared",
    "unknown-role": "a role of models that is not declared",
    "unknown-server": "an MCP server that is not declared",
    "unknown-template": "a template that is not under `prompts/`",
    "unknown-test": "a test that does not exist",
    "unknown-tool": "a tool that is not declared",
    "unknown-type": "a type that is not declared",
    "unknown-variable": "a variable that is not there",
    "unknown-word": "a word that is not one of the choices",
    "unnamed-list": "a list input without a name of its own",
    "unquoted-start": "a text that starts with a character of YAML's own",
    "unquoted-template": "a template without quotes",
    "unreachable-branch": "a branch that is never reached",
    "unreachable-goal": "a goal that no run can reach",
    "unreadable-file": "a file that the system does not let us read",
    "unserved-group": "a tool group that no source can serve here",
    "unused-result": "data that goes nowhere",
    "wrong-arguments": "a call with the wrong arguments",
    "wrong-shape": "a value of the wrong shape",
    "wrong-type": "a type that does not fit",
    "yaml-tag": "a YAML tag (`!x`)",
    "yaml-trap": "something that YAML reads in another way than it looks",
}

/// The diagnostic of a name.
pub fn find(name: &str) -> Option<&'static Code> {
    CODES.iter().find(|code| code.name == name)
}

/// The page of a diagnostic, in Markdown: what and why, an example, the cure.
pub fn explain(name: &str) -> Option<&'static str> {
    find(name).map(|code| code.page)
}

/// A fenced block of a page: its language and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// `yaml`, `toml`, `jinja`, `json`, `text`.
    pub language: &'static str,
    /// What it holds.
    pub text: &'static str,
}

impl Fence {
    /// The file's name, when the first line is a comment that names one: `# workflows/x.yaml`.
    pub fn path(self) -> Option<&'static str> {
        let path = self.text.lines().next()?.trim_start_matches(['#', '{', ' ']).trim_end_matches(['}', '#', ' ']);
        (path.contains('.') && !path.contains(' ')).then_some(path)
    }
}

impl Code {
    /// The files that give this diagnostic.
    pub fn example(&self) -> Vec<Fence> {
        fences(section(self.page, "## Example"))
    }

    /// The same files, corrected.
    pub fn cure(&self) -> Vec<Fence> {
        fences(section(self.page, "## Cure"))
    }
}

/// The text between a heading and the next.
fn section(page: &'static str, heading: &str) -> &'static str {
    let start = page.find(heading).map_or(page.len(), |at| at + heading.len());
    let rest = page.get(start..).unwrap_or("");
    rest.split("\n## ").next().unwrap_or("")
}

fn fences(text: &'static str) -> Vec<Fence> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("```") {
        let Some((language, body)) = after.split_once('\n') else { break };
        let Some((text, next)) = body.split_once("```") else { break };
        found.push(Fence { language, text });
        rest = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{FileId, Source, read};

    #[test]
    fn the_table_is_alphabetical() {
        let names: Vec<_> = CODES.iter().map(|code| code.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
    }

    #[test]
    fn every_page_has_its_parts() {
        for code in CODES {
            let name = code.name;
            let rest = code.page.strip_prefix(&format!("# {name}\n\n"));
            let why = rest.and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
            assert!(why.len() > 20 && !why.starts_with('#'), "`{name}.md` begins with its name and a paragraph");
            assert!(!code.example().is_empty(), "`{name}.md` has an example in a fence under `## Example`");
            assert!(!code.cure().is_empty(), "`{name}.md` has the corrected text in a fence under `## Cure`");
            assert!(!code.summary.ends_with('.') && !code.summary.is_empty());
        }
    }

    /// All Rust files of the library.
    fn rust_files(folder: &std::path::Path, out: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rust_files(&path, out);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                out.push(path);
            }
        }
    }

    #[test]
    fn every_code_in_use_is_in_the_table() {
        let call = r#"(?:Diagnostic::(?:error|warning)|SyntaxError::new)\(\s*"([^"]+)""#;
        let call = regex::Regex::new(call).unwrap();
        let mut files = Vec::new();
        rust_files(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for found in call.captures_iter(&text) {
                assert!(find(&found[1]).is_some(), "`{}` of {} has no line in the table", &found[1], file.display());
            }
        }
    }

    #[test]
    fn no_page_is_forgotten() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/diag/codes");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(find(name.trim_end_matches(".md")).is_some(), "`{name}` has no line in the table");
        }
    }

    /// What the readers say of a fence.
    fn syntax_errors(fence: Fence) -> Vec<&'static str> {
        let path = fence.path().unwrap_or(if fence.language == "toml" { "a.toml" } else { "a.yaml" });
        let (_, errors) = read(FileId(0), &Source::new(path, fence.text));
        errors.iter().map(|error| error.code).collect()
    }

    /// Examples of the readers' codes give that code and no other; all cures can be read.
    #[test]
    fn examples_give_their_code_and_cures_cure() {
        let mut seen = 0;
        for code in CODES {
            let files = |fence: &Fence| matches!(fence.language, "yaml" | "toml");
            let found: Vec<_> = code.example().into_iter().filter(files).flat_map(syntax_errors).collect();
            seen += usize::from(!found.is_empty());
            assert!(found.iter().all(|found| *found == code.name), "`{}.md` gives {found:?}", code.name);
            let left: Vec<_> = code.cure().into_iter().filter(files).flat_map(syntax_errors).collect();
            assert!(left.is_empty(), "the cure of `{}.md` gives {left:?}", code.name);
        }
        assert!(seen >= 27, "only {seen} examples are refused by a reader");
    }

    #[test]
    fn fences_know_their_files() {
        let code = find("file-not-found").unwrap();
        assert_eq!(
            code.cure().iter().filter_map(|fence| fence.path()).collect::<Vec<_>>(),
            ["workflows/ticket.yaml", "shared/types.yaml"]
        );
        assert!(explain("nothing-like-it").is_none());
    }
}
