//! Tool groups: roles for tools, whose sources are tools of the project and servers (language.md 8).

use super::offer::Use;

/// The longest name of a tool (language.md 1).
pub const NAME_CHARS_MAX: usize = 64;

/// A group, resolved: where its tools come from and what they may do at most.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// What its tools are for.
    pub description: Option<String>,
    /// Where its tools come from, in order.
    pub sources: Vec<Source>,
    /// An upper bound on what its tools may touch; `None` when there is none. The servers that the group itself names
    /// as sources are within it.
    pub permissions: Option<Vec<String>>,
}

/// One source of a group's tools.
#[derive(Clone, Debug)]
pub enum Source {
    /// Tools of the project.
    Tools {
        /// The tools.
        tools: Vec<Use>,
        /// Which of them are taken, and under which names.
        take: Take,
    },
    /// An MCP server of the project file: its tools are known once it runs.
    Server {
        /// The server's name.
        server: String,
        /// Which of its tools are taken, and under which names.
        take: Take,
    },
}

/// Which tools of a source are taken, and under which names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Take {
    /// Names and patterns (`*` is any text) of the tools taken; all when empty.
    pub include: Vec<String>,
    /// Names and patterns of the tools left out; stronger than `include`.
    pub exclude: Vec<String>,
    /// Put before each tool's name.
    pub prefix: String,
}

impl Take {
    /// The name under which the source's tool `name` is offered; `None` when it is left out.
    pub fn offered(&self, name: &str) -> Option<String> {
        let included = self.include.is_empty() || self.include.iter().any(|pattern| matches(pattern, name));
        let excluded = self.exclude.iter().any(|pattern| matches(pattern, name));
        (included && !excluded).then(|| format!("{}{name}", self.prefix))
    }
}

/// Whether a pattern, in which `*` is any text, is the whole of a name.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl Group {
    /// Whether the bound allows a permission such as `exec` or `mcp:brave`.
    pub fn allows(&self, permission: &str) -> bool {
        let Some(bound) = &self.permissions else { return true };
        let own = |source: &Source| match source {
            Source::Server { server, .. } => permission.strip_prefix("mcp:") == Some(server.as_str()),
            Source::Tools { .. } => false,
        };
        bound.iter().any(|pattern| matches(pattern, permission)) || self.sources.iter().any(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_names_with_stars() {
        for (pattern, name, fits) in [
            ("search", "search", true),
            ("search", "search_all", false),
            ("fetch*", "fetch", true),
            ("fetch*", "fetch_page", true),
            ("*local*", "brave_local_search", true),
            ("*local*", "brave_web_search", false),
            ("a*b*c", "a_b_b_c", true),
            ("a*b*c", "a_c_b", false),
            ("a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_excluded_is_left_out_though_it_is_included() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let take = Take {
            include: texts(&["brave_web_search", "fetch*"]),
            exclude: texts(&["*local*"]),
            prefix: "web_".to_owned(),
        };
        assert_eq!(take.offered("fetch_page").as_deref(), Some("web_fetch_page"));
        assert_eq!(take.offered("fetch_local"), None);
        assert_eq!(take.offered("other"), None);
        assert_eq!(Take::default().offered("other").as_deref(), Some("other"));
    }

    #[test]
    fn a_bound_holds_for_all_but_the_groups_own_servers() {
        let server = Source::Server { server: "brave".to_owned(), take: Take::default() };
        let group = Group { permissions: Some(vec!["internet".to_owned()]), sources: vec![server], ..Group::default() };
        assert!(group.allows("internet") && group.allows("mcp:brave"));
        assert!(!group.allows("exec") && !group.allows("mcp:files"));
        assert!(Group::default().allows("exec"));
    }
}
