//! `plan`: reasons, alternatives, assumptions, exclusions, limits; `graph` and `domain --format pddl` beside it.

use serde_json::{Value, json};

use super::project;
use crate::support::project::Project;

/// Tea can be brewed or bought; milk is nowhere to be had.
const TEA: &str = "\
agent: tea
description: Makes tea
inputs: UserInput
types:
  Water: {liters: number}
  HotWater: {liters: number}
  Milk: {liters: number}
  Tea: {kind: string}
  Chai: {kind: string}
conditions:
  thirsty: user_input.content != ''
actions:
  draw: {inputs: UserInput, output: Water, cost: 1, set: {liters: 1}}
  boil: {inputs: Water, output: HotWater, cost: 2, set: {liters: 1}}
  brew: {inputs: HotWater, output: Tea, pre: thirsty, cost: 1, set: {kind: green}}
  buy: {inputs: UserInput, output: Tea, cost: 5, set: {kind: bought}}
  spice: {inputs: [Tea, Milk], output: Chai, set: {kind: masala}}
goals:
  served: {output: Tea, value: 10, description: There is tea}
  spiced: {output: Chai, value: 9, description: There is chai}
";

fn tea() -> Project {
    project().file("workflows/tea.yaml", TEA)
}

fn plan(args: &[&str], code: i32) -> Value {
    let mut all = vec!["plan", "tea", "--json"];
    all.extend(args);
    tea().run(&all).exits(code).json()
}

fn actions(steps: &Value) -> Vec<&str> {
    steps.as_array().into_iter().flatten().filter_map(|step| step["action"].as_str()).collect()
}

#[test]
fn steps_say_what_they_need_and_not_that_they_have_not_run() {
    let document = plan(&["some tea"], 0);
    assert_eq!(actions(&document["steps"]), ["draw", "boil", "brew"]);
    let because: Vec<&Value> = (0..3).map(|at| &document["steps"][at]["because"]).collect();
    assert_eq!(
        because,
        [&json!(["has(UserInput)"]), &json!(["has(Water)"]), &json!(["has(HotWater)", "thirsty"])],
        "{document:#}"
    );
    assert_eq!((&document["cost"], &document["value"]), (&json!(4.0), &json!(6.0)));
    let text = tea().run(&["plan", "tea", "some tea"]).exits(0).stdout;
    for part in [
        "tea → served  cost 4, net value 6",
        "1. draw  needs UserInput given; cost 1",
        "3. brew  needs HotWater from boil, thirsty now; cost 1",
        "out of reach: spiced",
        "`Milk` is not among the inputs, and no action outputs it",
        "`Chai` is output only by `spice`, which needs `Milk`, which nothing supplies",
        "with `Milk` among the inputs it could be reached",
    ] {
        assert!(text.contains(part), "no {part}: {text}");
    }
}

#[test]
fn what_is_open_is_assumed_and_said() {
    let document = plan(&[], 0);
    assert_eq!(document["steps"][2]["assumes"], json!(["thirsty"]));
    let text = tea().run(&["plan", "tea"]).exits(0).stdout;
    assert!(text.contains("assumes thirsty (open now)"), "{text}");
}

#[test]
fn alternatives_come_in_order_of_rank() {
    let document = plan(&["--alternatives", "5"], 0);
    let others = document["alternatives"].as_array().expect("a list");
    assert_eq!(others.len(), 1, "{document:#}");
    assert_eq!(actions(&others[0]["steps"]), ["buy"]);
    assert_eq!(
        (&others[0]["goal"], &others[0]["cost"], &others[0]["value"]),
        (&json!("served"), &json!(5.0), &json!(5.0))
    );
    let both = plan(&["--alternatives", "5", "--assume", "Milk"], 0);
    let goals: Vec<&Value> =
        both["alternatives"].as_array().into_iter().flatten().map(|other| &other["goal"]).collect();
    assert_eq!(goals, ["spiced", "served", "spiced"], "{both:#}");
    assert_eq!(plan(&["--alternatives", "0"], 0)["alternatives"], json!([]));
    assert!(plan(&[], 0).get("alternatives").is_none());
    let text = tea().run(&["plan", "tea", "--alternatives", "5"]).exits(0).stdout;
    assert!(text.contains("alternative 1  cost 5, net value 5\n  1. buy  needs UserInput given; cost 5"), "{text}");
    let output = tea().run(&["plan", "tea", "--alternatives=-1"]).exits(2);
    assert!(output.stderr.contains("--alternatives"), "{output}");
    tea().run(&["plan", "tea", "--alternatives", "many"]).exits(2);
}

#[test]
fn facts_are_assumed_by_their_text_or_their_type() {
    for fact in ["has(HotWater)", "HotWater"] {
        assert_eq!(actions(&plan(&["--assume", fact], 0)["steps"]), ["brew"], "{fact}");
    }
    assert_eq!(actions(&plan(&["--assume", "not thirsty"], 0)["steps"]), ["buy"]);
    let held = plan(&["--assume", "Tea"], 0);
    assert_eq!((&held["steps"], &held["reachable"]), (&json!([]), &json!(true)));
    assert!(tea().run(&["plan", "tea", "--assume", "Tea"]).exits(0).stdout.contains("the goal holds already"));
    let nothing = plan(&["--assume", "not UserInput"], 4);
    assert_eq!(nothing["reachable"], false);
    let again = plan(&["--assume", "ran(draw)", "--assume", "ran(buy)"], 4);
    assert!(again.to_string().contains("`draw` has run already, and runs once"), "{again:#}");
    let output = tea().run(&["plan", "tea", "--assume", "HotWatre"]).exits(2);
    assert!(output.stderr.contains("did you mean `has(HotWater)`?"), "{output}");
    tea().run(&["plan", "tea", "--assume", ""]).exits(2);
}

#[test]
fn an_assumed_object_is_one_of_its_supertypes_too() {
    let text = "\
agent: vet
inputs: UserInput
types:
  Animal: {abstract: true}
  Dog: {is: Animal, fields: {name: string, wet: boolean}}
  Bill: {cents: integer}
actions:
  find: {inputs: UserInput, output: Animal, prompt: Which animal?}
  dry: {inputs: Animal, pre: dog.wet, output: Bill, set: {cents: 5}, achieves: The animal is dry}
";
    let project = project().file("workflows/vet.yaml", text);
    let document = project.run(&["plan", "vet", "--json", "--assume", "Dog"]).exits(0).json();
    assert_eq!(actions(&document["steps"]), ["dry"], "{document:#}");
    assert_eq!(document["steps"][0]["assumes"], json!(["dog.wet"]));
    let document = project.run(&["plan", "vet", "--json", "--assume", "not has(Animal)"]).exits(0).json();
    assert_eq!(actions(&document["steps"]), ["find", "dry"], "{document:#}");
}

#[test]
fn actions_can_be_left_out() {
    assert_eq!(actions(&plan(&["--without", "brew"], 0)["steps"]), ["buy"]);
    let none = plan(&["--without", "brew", "--without", "buy"], 4);
    assert!(
        none["goals"][0].to_string().contains("`brew`, which is excluded, and by `buy`, which is excluded"),
        "{none:#}"
    );
    let output = tea().run(&["plan", "tea", "--without", "bru"]).exits(2);
    assert!(
        output.stderr.contains("the agent `tea` has no action `bru`") && output.stderr.contains("`brew`"),
        "{output}"
    );
}

#[test]
fn one_goal_can_be_meant() {
    let document = plan(&["--goal", "spiced"], 4);
    assert_eq!(document["goals"].as_array().map(Vec::len), Some(1));
    let document = plan(&["--returns", "HotWater"], 0);
    assert_eq!(actions(&document["steps"]), ["draw", "boil"]);
    let output = tea().run(&["plan", "tea", "--goal", "servd"]).exits(2);
    assert!(output.stderr.contains("did you mean `served`?"), "{output}");
}

#[test]
fn a_cost_that_is_not_known_yet_is_said() {
    let text = TEA.replace("output: Tea, cost: 5,", "output: Tea, cost: water.liters * 2,");
    let project = project().file("workflows/tea.yaml", text);
    let text = project.run(&["plan", "tea"]).exits(0).stdout;
    assert!(text.contains("cost 0 and what one step turns out to cost, net value 10"), "{text}");
    assert!(text.contains("buy  needs UserInput given; cost water.liters * 2, not known yet"), "{text}");
}

#[test]
fn planning_that_comes_to_its_time_limit_is_exit_5() {
    let output =
        super::project().file("workflows/maze.yaml", maze()).run(&["plan", "maze", "--json", "--timeout", "1ms"]);
    let document = output.exits(5).json();
    assert_eq!((&document["reachable"], &document["limit"]), (&json!(false), &json!("time")));
    assert_eq!(document["goals"][0]["limit"], "time");
    let project = super::project().file("workflows/maze.yaml", maze());
    let text = project.run(&["plan", "maze", "--timeout", "1ms"]).exits(5).stdout;
    assert!(text.contains("planning came to its time limit") && !text.contains("out of reach"), "{text}");
    let output = project.run(&["run", "maze", "--timeout", "20ms", "x"]).exits(5);
    assert!(output.stderr.contains("limit"), "{output}");
}

/// Flags that are flipped against one another, so that a plan takes long to be found: a counter in Gray code.
fn maze() -> String {
    use std::fmt::Write;
    let bits = 22;
    let mut text = String::from("agent: maze\ninputs: UserInput\ntypes:\n  Exit: {text: string}\nconditions:\n");
    for bit in 0..bits {
        let _ = writeln!(text, "  b{bit}: false");
    }
    text.push_str("actions:\n");
    for bit in 0..bits {
        // A bit turns only when the one below is set and all below that are not.
        let mut pre: Vec<String> =
            (0..bit).map(|low| if low + 1 == bit { format!("b{low}") } else { format!("not b{low}") }).collect();
        pre.push(format!("not b{bit}"));
        let _ = writeln!(text, "  on{bit}: {{can_rerun: true, pre: [{}], post: b{bit}, set: null}}", pre.join(", "));
        pre.pop();
        pre.push(format!("b{bit}"));
        let _ =
            writeln!(text, "  off{bit}: {{can_rerun: true, pre: [{}], post: not b{bit}, set: null}}", pre.join(", "));
    }
    let _ = writeln!(
        text,
        "  leave: {{inputs: UserInput, output: Exit, pre: [{}], set: {{text: out}}, achieves: Outside}}",
        (0..bits)
            .map(|bit| if bit + 1 == bits { format!("b{bit}") } else { format!("not b{bit}") })
            .collect::<Vec<_>>()
            .join(", ")
    );
    text
}

/// Two things to do, one of them hanging on what nobody knows yet.
const DESK: &str = "\
agent: desk
planner: utility
inputs: Order
types:
  Order: {size: integer}
  Packed: {size: integer}
  Note: {text: string}
conditions:
  large: order.size > 10
actions:
  note: {inputs: Order, output: Note, value: 0.2, set: {text: noted}}
  pack: {inputs: Order, output: Packed, pre: large, value: 0.9, cost: order.size * 0.01, set: {size: 1}}
";

#[test]
fn a_utility_agent_shows_its_next_step_and_what_comes_after_it() {
    let project = project().file("workflows/desk.yaml", DESK);
    let run = |size: &str| {
        let input = format!("Order={{\"size\": {size}}}");
        project.run(&["plan", "desk", "--json", "--input", &input]).exits(0).json()
    };
    let document = run("20");
    assert_eq!((&document["goal"], &document["reachable"]), (&Value::Null, &json!(true)));
    assert_eq!((actions(&document["steps"]), &document["value"]), (vec!["pack"], &json!(0.7)));
    assert_eq!(actions(&document["ranked"]), ["pack", "note"]);
    assert_eq!(actions(&run("3")["steps"]), ["note"]);
    let text = project.run(&["plan", "desk"]).exits(0).stdout;
    assert!(text.contains("desk: the next step") && text.contains("1. note"), "{text}");
    assert!(text.contains("pack") && text.contains("if large"), "{text}");
    let done = project.run(&["plan", "desk", "--without", "note", "--without", "pack"]).exits(0).stdout;
    assert!(done.contains("nothing is left to do"), "{done}");
}

#[test]
fn run_takes_another_planner() {
    let project = project().file("workflows/desk.yaml", DESK);
    let input = r#"Order={"size": 20}"#;
    let document = project.run(&["run", "desk", "--json", "--input", input]).exits(0).json();
    assert_eq!(document["status"], "completed", "{document:#}");
    assert_eq!(actions(&document["history"]), ["pack", "note"]);
    let document = project.run(&["run", "desk", "--json", "--planner", "goap", "--input", input]).exits(4).json();
    assert_eq!(document["failure"]["message"], "there is no goal to plan for");
    let document = tea().run(&["run", "tea", "--json", "--planner", "utility", "x"]).exits(0).json();
    assert_eq!(document["goal"], "served");
    let document = tea().run(&["run", "tea", "--json", "--planner", "hybrid", "x"]).exits(0).json();
    assert_eq!(actions(&document["history"]), ["draw", "boil", "brew"]);
    let output = tea().run(&["run", "tea", "--planner", "magic", "x"]).exits(2);
    assert!(output.stderr.contains("there is no planner `magic`"), "{output}");
}

#[test]
fn graphs_are_drawn_in_three_forms() {
    let project = tea();
    let mermaid = project.run(&["graph", "tea"]).exits(0).stdout;
    assert!(mermaid.starts_with("flowchart LR\n") && mermaid.contains("1. draw"), "{mermaid}");
    let dot = project.run(&["graph", "tea", "--format", "dot"]).exits(0).stdout;
    assert!(dot.starts_with("digraph agent {") && dot.trim_end().ends_with('}'), "{dot}");
    let svg = project.run(&["graph", "tea", "--format", "svg"]).exits(0).stdout;
    for name in ["UserInput", "1. draw", "2. boil", "3. brew", "spice", "served", "spiced"] {
        assert!(svg.contains(&format!(">{name}</text>")), "no {name}: {svg}");
    }
    well_formed(&svg);
    project.run(&["graph", "tea", "--format", "png"]).exits(2);
}

/// Every element is closed in order, and every attribute is quoted: what an XML parser asks for, without its entities.
fn well_formed(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in text.split('<').skip(1) {
        let (tag, between) = tag.split_once('>').unwrap_or_else(|| panic!("an open tag: {tag}"));
        assert!(!between.contains('&') || between.contains(';'), "{between}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap_or_default());
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_domain_is_written_in_pddl() {
    let project = tea();
    let text = project.run(&["domain", "tea", "--format", "pddl"]).exits(0).stdout;
    for part in [
        "(define (domain agent)",
        ":negative-preconditions",
        "; brew",
        "(define (problem start)",
        "(:metric minimize (total-cost))",
    ] {
        assert!(text.contains(part), "no {part}: {text}");
    }
    assert_eq!(text.matches('(').count(), text.matches(')').count());
    project.run(&["domain", "tea", "--format", "pddl", "--out", "pddl", "--goal", "spiced"]).exits(0);
    assert!(project.read("pddl/domain.pddl").contains("a4-spice"));
    assert!(project.read("pddl/problem.pddl").contains("has-chai"));
    let document = project.run(&["domain", "tea", "--format", "pddl", "--json"]).exits(0).json();
    assert!(document["problem"].as_str().is_some_and(|text| text.contains("has-tea")), "{document:#}");
    let output = project.file("workflows/desk.yaml", DESK).run(&["domain", "desk", "--format", "pddl"]).exits(2);
    assert!(output.stderr.contains("has no goal"), "{output}");
}

/// The commands of docs/planning.md give what the page shows. `UPDATE=1 cargo test the_page_on_planning` rewrites it.
#[test]
fn the_page_on_planning_shows_what_the_program_says() {
    let path = crate::support::root().join("docs/planning.md");
    let page = crate::support::text(&path);
    let workflow = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a workflow");
    let project = Project::of_the_repository().file("workflows/tea.yaml", workflow);
    let mut written = String::new();
    for (at, part) in page.split("```console\n").enumerate() {
        if at == 0 {
            written.push_str(part);
            continue;
        }
        let (block, rest) = part.split_once("```").expect("a block that ends");
        written.push_str("```console\n");
        for line in block.lines().filter(|line| line.starts_with("$ ")) {
            let args = words(line.trim_start_matches("$ agent-run "));
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            written.push_str(&format!("{line}\n{}", project.run(&args).stdout));
        }
        written.push_str("```");
        written.push_str(rest);
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &written).expect("the page is written");
        return;
    }
    assert_eq!(written, page);
}

/// The words of a command, quotes taken off.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            (' ', None) => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            (c, _) => word.push(c),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}
