//! Whether something is permitted (runtime.md 8): deny first, then allow; what is neither is asked for.

use crate::program::Permissions;
use crate::tool::group::matches;

/// The answer to a request for a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grant {
    /// Without asking.
    Allowed,
    /// When a person agrees.
    Asked,
    /// Never.
    Denied,
}

/// Permissions that need no asking until the project writes its own.
const DEFAULTS: &[&str] = &["internet", "files:read", "mcp:*"];

/// Decides about a permission such as `internet` for a subject such as a URL, a program or a tool.
pub(super) fn decide(permissions: &Permissions, permission: &str, subject: &str) -> Grant {
    let names = [permission.to_owned(), subject.to_owned(), format!("{permission}:{subject}")];
    let lists = |patterns: &[String]| patterns.iter().any(|pattern| names.iter().any(|name| matches(pattern, name)));
    if lists(&permissions.deny) {
        return Grant::Denied;
    }
    let allowed = match permissions.declared {
        true => lists(&permissions.allow) && !lists(&permissions.ask),
        false => DEFAULTS.iter().any(|pattern| matches(pattern, permission)),
    };
    if allowed { Grant::Allowed } else { Grant::Asked }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_permissions_are_written_the_defaults_hold() {
        let none = Permissions::default();
        assert_eq!(decide(&none, "internet", "https://x"), Grant::Allowed);
        assert_eq!(decide(&none, "files:read", "a.txt"), Grant::Allowed);
        assert_eq!(decide(&none, "mcp:brave", "search"), Grant::Allowed);
        assert_eq!(decide(&none, "exec", "ls"), Grant::Asked);
        assert_eq!(decide(&none, "files:write", "a.txt"), Grant::Asked);
    }

    #[test]
    fn deny_comes_first_and_patterns_match_subjects() {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        let permissions = Permissions {
            declared: true,
            allow: list(&["exec", "https://api.example.com/*"]),
            ask: list(&["exec:git"]),
            deny: list(&["exec:rm"]),
        };
        assert_eq!(decide(&permissions, "exec", "ls"), Grant::Allowed);
        assert_eq!(decide(&permissions, "exec", "git"), Grant::Asked);
        assert_eq!(decide(&permissions, "exec", "rm"), Grant::Denied);
        assert_eq!(decide(&permissions, "internet", "https://api.example.com/v1"), Grant::Allowed);
        assert_eq!(decide(&permissions, "internet", "https://other.example.com/"), Grant::Asked);
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, fits) in [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("*b*", "abc", true),
            ("a*b", "abc", false),
            ("ab*ba", "aba", false),
            ("abc", "abc", true),
            ("ab", "abc", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
