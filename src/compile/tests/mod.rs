//! Whole compilations in memory: files in, findings and domains out.

mod again;
mod domain;
mod findings;
mod pages;
mod robust;

use super::*;
use crate::planning::{Problem, plan};
use crate::program::Agent;
use crate::world::MemoryWorld;

pub(crate) const STAR_NEWS: &str = r#"agent: star-news-finder
description: Finds news that matters to a person, by their star sign
inputs: UserInput
config: {story_count: 3}
models: {default: openai/gpt-4.1-mini, roles: {best: anthropic/claude-sonnet-4-5}}
types:
  StarPerson:
    name: string
    sign: {enum: [aries, taurus, gemini]}
    age?: integer
  Horoscope: {summary: string}
  RelevantNewsStories: {items: list<NewsStory>}
  NewsStory: {title: string, url: uri}
  Writeup: {text: string}
actions:
  extract_star_person:
    inputs: UserInput
    output: StarPerson
    prompt: "Extract the person from: {{ user_input.content }}"
  retrieve_horoscope:
    inputs: StarPerson
    output: Horoscope
    set: {summary: "All is well, {{ star_person.name }}"}
  find_news:
    description: Find news relevant to a person's horoscope
    inputs: [StarPerson, Horoscope]
    output: RelevantNewsStories
    llm: {role: best, temperature: 0.2}
    prompt: |
      {{ star_person.name }} believes in astrology.
      Find {{ config.story_count }} stories that bear on this: {{ horoscope.summary }}
  writeup:
    inputs: [StarPerson, Horoscope, RelevantNewsStories]
    output: Writeup
    achieves: {description: The news are written up, value: 1}
    prompt: Write up {{ relevant_news_stories }} for {{ star_person.name }}.
"#;

/// Compiles files; the first is the entry.
pub(super) fn compiled(files: &[(&str, &str)]) -> Compiled {
    let world = MemoryWorld::with_files(files.iter().copied());
    compile(&world, Entry::File(PathBuf::from(files[0].0)))
}

/// The findings as `code at "text": message`.
pub(super) fn lines(compiled: &Compiled) -> Vec<String> {
    let line = |d: &Diagnostic| {
        let text = d.span.map(|span| compiled.sources.slice(span).lines().next().unwrap_or("").to_owned());
        format!("{} at {:?}: {}", d.code, text.unwrap_or_default(), d.message)
    };
    compiled.diagnostics.iter().map(line).collect()
}

pub(super) fn agent(files: &[(&str, &str)]) -> Arc<Agent> {
    let compiled = compiled(files);
    let program = compiled.program.as_ref().unwrap_or_else(|| panic!("{:#?}", lines(&compiled)));
    Arc::clone(&program.agents[0])
}

/// The best plan from the agent's inputs, as names of actions.
pub(super) fn planned(agent: &Agent) -> Vec<String> {
    let start = agent.assumed_start(&agent.inputs);
    let outcome = plan(&Problem::new(&agent.domain, start));
    let steps = outcome.plan().map(|plan| plan.actions()).unwrap_or_default();
    steps.into_iter().map(|step| agent.actions[agent.operators[step]].name.clone()).collect()
}

#[test]
fn star_news_compiles_to_a_program_with_a_plan() {
    let compiled = compiled(&[("workflows/star-news.yaml", STAR_NEWS)]);
    assert_eq!(lines(&compiled), Vec::<String>::new());
    let agent = agent(&[("workflows/star-news.yaml", STAR_NEWS)]);
    assert_eq!(planned(&agent), ["extract_star_person", "retrieve_horoscope", "find_news", "writeup"]);
    let models = agent.models_of(&agent.actions[2].settings);
    assert_eq!(
        (models[0].model.as_str(), models[0].roles.as_slice()),
        ("anthropic/claude-sonnet-4-5", &["best".to_owned()][..])
    );
    assert!(agent.unsupported.is_empty(), "{:?}", agent.unsupported);
    assert_eq!(compiled.checked.actions, 4);
}

#[test]
fn what_tools_hand_over_to_is_known_behind_groups_facades_and_objects() {
    let agent = |name: &str| {
        format!(
            "agent: {name}\ndescription: x\ninputs: UserInput\ntypes: {{Help: string}}\nactions: {{help: {{inputs: UserInput, output: \
             Help, set: x, achieves: x}}}}\n"
        )
    };
    let names = ["direct", "grouped", "behind", "called", "of_object", "nobody"];
    let others: Vec<(String, String)> =
        names.iter().map(|name| (format!("workflows/{name}.yaml"), agent(name))).collect();
    let desk = "agent: desk
inputs: UserInput
types:
  Help: string
  Order: {fields: {id: string}, tools: {look: {description: x, agent: of_object}}}
tools:
  ask: {description: x, agent: called}
  unused: {description: x, agent: nobody}
  shop: {description: x, unfold: {tools: [{name: inner, description: x, unfold: {tools: [behind]}}]}}
tool_groups: {web: {description: x, from: [{tools: [grouped, {tool: ask, name: asked}]}]}}
actions:
  answer: {inputs: UserInput, output: Help, tools: [direct, web, shop, Order], prompt: x, achieves: x}
";
    let mut files = vec![("workflows/desk.yaml", desk)];
    files.extend(others.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    let reached: Vec<String> = self::agent(&files).handed_to().into_iter().collect();
    assert_eq!(reached, ["behind", "called", "direct", "grouped", "of_object"]);
}
