//! `skills validate`: verdicts with places, exit codes, documents.

use serde_json::json;

use crate::support::project::Project;

const GOOD: &str =
    "---\nname: refunds\ndescription: How money is given back. Use when someone wants a refund.\n---\nAsk first.\n";

#[test]
fn a_skill_is_judged_by_its_directory_its_file_or_the_directory_of_many() {
    let project = Project::new().file("skills/refunds/SKILL.md", GOOD);
    for named in ["skills/refunds", "skills/refunds/", "skills/refunds/SKILL.md", "skills"] {
        let output = project.run(&["skills", "validate", named]).exits(0);
        assert!(output.stdout.contains("the skill `refunds` is valid"), "{output}");
    }
    let document = project.run(&["skills", "validate", "skills/refunds", "--json"]).exits(0).json();
    assert_eq!(document, json!([{"path": "skills/refunds", "valid": true, "name": "refunds", "findings": []}]));
}

#[test]
fn what_is_wrong_is_shown_at_its_place_and_the_others_are_judged_too() {
    let wrong = "---\nname: Cards\ndescription: Use when: asked\n---\n";
    let project = Project::new()
        .file("skills/cards/SKILL.md", wrong)
        .file("skills/pay_out/SKILL.md", "---\nname: pay_out\nversion: 1\n---\n")
        .file("skills/refunds/SKILL.md", GOOD);
    let output = project.run(&["skills", "validate", "skills"]).exits(2);
    assert!(output.stderr.contains("skills/cards/SKILL.md:3:22"), "{output}");
    assert!(output.stdout.contains("`refunds` is valid"), "{output}");
    let document = project.run(&["skills", "validate", "skills", "--json"]).exits(2).json();
    let rules = document[1]["findings"].as_array().expect("findings").iter().map(|finding| finding["rule"].clone());
    assert_eq!(json!(rules.collect::<Vec<_>>()), json!(["unknown-field", "name-characters", "missing-description"]));
    assert_eq!(document[1]["findings"][1]["line"], 2);
    assert_eq!(document[1]["findings"][1]["column"], 7);
    assert_eq!(document[1]["findings"][1]["help"], "write `pay-out`");
}

#[test]
fn a_directory_without_a_skill_and_a_path_that_is_none_are_told() {
    let project = Project::new().file("empty/README.md", "nothing").file("cut/SKILL.md", b"---\nname: \xff\n---\n");
    let output = project.run(&["skills", "validate", "empty"]).exits(2);
    assert!(output.stderr.contains("no `SKILL.md`"), "{output}");
    let output = project.run(&["skills", "validate", "cut"]).exits(2);
    assert!(output.stderr.contains("not UTF-8"), "{output}");
    for named in ["missing", "empty/README.md"] {
        let output = project.run(&["skills", "validate", named]).exits(2);
        assert!(output.stderr.contains(&format!("`{named}`")), "{output}");
    }
}
