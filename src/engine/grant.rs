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

/// Decides about a permission such as `internet` for a subject such as a URL, a program or a server's tool, needed by the
/// body of a tool, which has these names, or of an action. That the tool itself may be called was decided by [`decide_tool`].
pub(super) fn decide(permissions: &Permissions, permission: &str, subject: &str, tools: &[&str]) -> Grant {
    let (names, short) = names(permission, subject);
    let lists = |patterns: &[String]| {
        let mut all = names.iter().chain(&short);
        all.any(|name| patterns.iter().any(|pattern| matches(pattern, name)))
    };
    let grants = |patterns: &[String]| {
        // `exec:git` grants the system's git and no file of that name somewhere else.
        let mut all = names.iter().chain(short.iter().filter(|_| permission != "exec"));
        all.any(|name| patterns.iter().any(|pattern| matches(pattern, name)))
    };
    if lists(&permissions.deny) {
        return Grant::Denied;
    }
    // A tool that stands under `ask` is performed once a person has agreed to it.
    let by_tool = |patterns: &[String]| lists_any(patterns, tools);
    let allowed = match permissions.declared {
        true if lists(&permissions.ask) => false,
        true => grants(&permissions.allow) || by_tool(&permissions.allow) || by_tool(&permissions.ask),
        false => DEFAULTS.iter().any(|pattern| matches(pattern, permission)),
    };
    if allowed { Grant::Allowed } else { Grant::Asked }
}

/// Decides whether a tool may be called at all: what it is called in `deny` or `ask` counts before what its body needs.
/// The names are its own and the one that it is offered by.
pub(super) fn decide_tool(permissions: &Permissions, tools: &[&str]) -> Grant {
    match () {
        () if lists_any(&permissions.deny, tools) => Grant::Denied,
        () if lists_any(&permissions.ask, tools) => Grant::Asked,
        () => Grant::Allowed,
    }
}

fn lists_any(patterns: &[String], names: &[&str]) -> bool {
    names.iter().any(|name| patterns.iter().any(|pattern| matches(pattern, name)))
}

/// What a request may be called in `permissions`: the permission, the subject, both; and in short, of a URL the host
/// alone, of a program the name alone, so that `deny: [exec:rm]` is about `/bin/rm` too.
fn names(permission: &str, subject: &str) -> ([String; 3], Vec<String>) {
    let names = [permission.to_owned(), subject.to_owned(), format!("{permission}:{subject}")];
    let short = match permission {
        "exec" => subject.rsplit(['/', '\\']).next(),
        "internet" => subject.split_once("://").and_then(|(_, rest)| host(rest)),
        _ => None,
    };
    let short = short.filter(|short| !short.is_empty() && *short != subject);
    (names, short.into_iter().flat_map(|short| [short.to_owned(), format!("{permission}:{short}")]).collect())
}

/// The host of a URL without its scheme.
fn host(rest: &str) -> Option<&str> {
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => authority.split(':').next()?,
    };
    Some(host.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_permissions_are_written_the_defaults_hold() {
        let none = Permissions::default();
        assert_eq!(decide(&none, "internet", "https://x", &[]), Grant::Allowed);
        assert_eq!(decide(&none, "files:read", "a.txt", &[]), Grant::Allowed);
        assert_eq!(decide(&none, "mcp:brave", "search", &[]), Grant::Allowed);
        assert_eq!(decide(&none, "exec", "ls", &[]), Grant::Asked);
        assert_eq!(decide(&none, "files:write", "a.txt", &[]), Grant::Asked);
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
        assert_eq!(decide(&permissions, "exec", "ls", &[]), Grant::Allowed);
        assert_eq!(decide(&permissions, "exec", "git", &[]), Grant::Asked);
        assert_eq!(decide(&permissions, "exec", "rm", &[]), Grant::Denied);
        assert_eq!(decide(&permissions, "internet", "https://api.example.com/v1", &[]), Grant::Allowed);
        assert_eq!(decide(&permissions, "internet", "https://other.example.com/", &[]), Grant::Asked);
    }

    #[test]
    fn a_program_is_meant_wherever_it_is_and_a_host_whatever_its_port() {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        let permissions = Permissions {
            declared: true,
            allow: list(&["exec:git", "internet:*.example.com", "files:write:docs/*"]),
            ask: Vec::new(),
            deny: list(&["exec:rm", "internet:bad.example.com"]),
        };
        for (permission, subject, grant) in [
            ("exec", "/bin/rm", Grant::Denied),
            ("exec", "git", Grant::Allowed),
            ("exec", "bin/git", Grant::Asked),
            ("exec", "rmdir", Grant::Asked),
            ("internet", "https://api.example.com:8443/v1", Grant::Allowed),
            ("internet", "http://bad.example.com./x", Grant::Denied),
            ("internet", "https://bad.example.com:1/", Grant::Denied),
            ("internet", "https://example.com.evil.org/", Grant::Asked),
            ("files:write", "docs/a.md", Grant::Allowed),
            ("files:write", "src/a.md", Grant::Asked),
            ("files:read", "docs/a.md", Grant::Asked),
        ] {
            assert_eq!(decide(&permissions, permission, subject, &[]), grant, "{permission} {subject}");
        }
    }

    #[test]
    fn a_tool_is_meant_by_its_name_or_a_pattern() {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        let permissions = Permissions {
            declared: true,
            allow: list(&["search", "notes_*"]),
            ask: list(&["send_*", "internet:paid.example.com"]),
            deny: list(&["delete_*", "internet:bad.example.com"]),
        };
        for (tool, grant) in [
            ("delete_all", Grant::Denied),
            ("send_mail", Grant::Asked),
            ("search", Grant::Allowed),
            ("other", Grant::Allowed),
        ] {
            assert_eq!(decide_tool(&permissions, &[tool, "other"]), grant, "{tool}");
        }
        for (permission, subject, tools, grant) in [
            ("internet", "https://example.com/", &["found", "search"][..], Grant::Allowed),
            ("internet", "https://bad.example.com/", &["found", "search"][..], Grant::Denied),
            ("internet", "https://paid.example.com/", &["found", "search"][..], Grant::Asked),
            ("internet", "https://example.com/", &["other"], Grant::Asked),
            ("internet", "https://example.com/", &[], Grant::Asked),
            ("files:write", "a.md", &["notes_add"], Grant::Allowed),
            ("exec", "mail", &["send_mail"], Grant::Allowed),
        ] {
            assert_eq!(decide(&permissions, permission, subject, tools), grant, "{permission} {subject} {tools:?}");
        }
    }
}
