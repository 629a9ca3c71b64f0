//! Personalities of the log: never by default, a few words beside the facts, themes of an author's own.

use super::project;
use crate::support::project::Project;

fn with(personality: &str) -> Project {
    let project = project();
    let file = project.read("agent-run.yaml");
    project.write("agent-run.yaml", format!("{file}\nlogging: {{personality: {personality}}}\n"));
    project
}

#[test]
fn nothing_is_said_by_default_and_a_personality_says_it_on_stderr_only() {
    let run = ["run", "workflows/ask.yaml", "What?"];
    let plain = project().run(&run).exits(0);
    let themed = with("hitchhiker").run(&run).exits(0);
    assert!(!plain.stderr.contains("towel"), "{}", plain.stderr);
    assert!(themed.stderr.contains("ask knows where its towel is"), "{}", themed.stderr);
    assert!(themed.stderr.contains("demo/any") && themed.stderr.contains("ask: 42"), "{}", themed.stderr);
    assert_eq!(plain.stdout, themed.stdout);
    assert_eq!(with("none").run(&run).exits(0).stderr.lines().count(), plain.stderr.lines().count());
}

#[test]
fn an_author_adds_a_theme() {
    let themed = with("themes/butler.yaml").file("themes/butler.yaml", "succeeded: ['{action}, as you wished']\n");
    let said = themed.run(&["run", "workflows/ask.yaml", "What?"]).exits(0).stderr;
    assert!(said.contains("(answer, as you wished)"), "{said}");
}

#[test]
fn a_theme_with_a_mistake_is_refused_at_its_place() {
    let check = |personality: &str, theme: &str| {
        let said = with(personality).file("themes/own.yaml", theme).run(&["check", "."]).exits(2);
        format!("{}{}", said.stdout, said.stderr)
    };
    let said = check("themes/own.yaml", "begins: [hello]\nsuceeded: [fine]\n");
    assert!(said.contains("themes/own.yaml:2:1") && said.contains("succeeded"), "{said}");
    let said = check("themes/own.yaml", "failed: ['oh, {agent}']\n");
    assert!(said.contains("themes/own.yaml:1:") && said.contains("{action}"), "{said}");
    let said = check("themes/owm.yaml", "");
    assert!(said.contains("themes/own.yaml"), "{said}");
    let said = check("hitchiker", "");
    assert!(said.contains("`hitchhiker`"), "{said}");
}
