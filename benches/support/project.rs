//! A made-up project of many workflows that looks like a real one: shared types, templates that include and import
//! others, five to eight actions in each file.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// How many workflows share one module of types, and one directory of templates.
const WORKFLOWS_PER_DESK: usize = 20;

/// Writes a project with `workflows` workflow files (and what they share) into `root`.
pub(crate) fn write_project(root: &Path, workflows: usize) {
    let write = |path: String, text: String| {
        let path = root.join(path);
        let parent = path.parent().expect("a path inside the root");
        fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).expect("a temporary directory can be written");
    };
    write("agent-run.yaml".into(), PROJECT.into());
    write("prompts/script.yaml".into(), "replies:\n  - reply: none\n".into());
    write("prompts/shared/lists.jinja".into(), LISTS.into());
    write("prompts/shared/style.jinja".into(), STYLE.into());
    for desk in 0..workflows.div_ceil(WORKFLOWS_PER_DESK) {
        write(format!("workflows/shared/desk{desk:03}.yaml"), shared_types(desk));
        write(format!("prompts/desk{desk:03}/report.jinja"), REPORT.replace("{DESK}", &format!("{desk:03}")));
    }
    for at in 0..workflows {
        write(format!("workflows/flow{at:04}.yaml"), workflow(at));
    }
}

const PROJECT: &str = "\
project:
  name: made-up
providers:
  demo: {kind: scripted, file: prompts/script.yaml}
models:
  default: demo/script
";

const LISTS: &str = "\
{% macro numbered(number, text) -%}
{{ number }}. {{ text }}
{%- endmacro %}
";

const STYLE: &str = "Write plainly. Prefer short sentences, and say what is not known.\n";

const REPORT: &str = "\
{% from \"shared/lists.jinja\" import numbered %}
Desk {DESK}: write a report for {{ customer.name }}{% if customer.city is defined %} of {{ customer.city }}{% endif %}.

What was found:
{% for finding in findings.items %}
{{ numbered(loop.index, finding.title) }}
   {{ finding.text | trim }} ({{ finding.weight | round(1) }})
{% else %}
Nothing.
{% endfor %}

{% include \"shared/style.jinja\" %}
";

fn shared_types(desk: usize) -> String {
    format!(
        "\
# What the workflows of desk {desk} share.
types:
  Customer:
    name: string
    tier: {{enum: [basic, gold, platinum]}}
    city?: string
    since: date
  Finding:
    title: string
    text: {{type: string, description: One paragraph}}
    weight: {{type: number, minimum: 0, maximum: 1}}
  Findings:
    items: list<Finding>
"
    )
}

/// One workflow; what differs from file to file are names, the number of research steps, and the length of the prompts.
fn workflow(at: usize) -> String {
    let desk = at / WORKFLOWS_PER_DESK;
    let steps = at % 4;
    let mut text = format!(
        "\
# Workflow {at}: from a request to a report, made up for measurements.
agent: flow-{at:04}
description: Answers requests of kind {at}

import: shared/desk{desk:03}.yaml

inputs: {{text: UserInput, customer: Customer}}

config:
  most: {most}
  service: \"\"

types:
  Request:
    subject: {{type: string, description: What is asked}}
    urgency: {{type: integer, minimum: 1, maximum: 5}}
    tags: list<string>
  Draft:
    title: string
    text: string
  Approved:
    title: string
    text: string
    by?: string
",
        most = 3 + at % 4,
    );
    for step in 0..steps {
        let _ = write!(text, "  Note{step}:\n    text: string\n    source?: uri\n");
    }
    text.push_str(
        "
conditions:
  urgent: request.urgency >= 4
  gold: customer.tier in [\"gold\", \"platinum\"]

actions:
  read_request:
    description: Find out what is asked
    inputs: {text: UserInput}
    output: Request
    llm: {temperature: 0.1}
    prompt: |
      What does this person ask for, and how urgent is it?

      {{ text.content }}

",
    );
    let mut inputs = vec!["Request".to_owned(), "Customer".to_owned()];
    for step in 0..steps {
        let _ = write!(
            text,
            "  research{step}:
    description: Look into aspect {step}
    inputs: Request
    output: Note{step}
    cost: {cost}
    prompt: |
      Look into aspect {step} of \"{{{{ request.subject | title }}}}\".
      {{% for tag in request.tags %}}
      - {{{{ tag | lower }}}}
      {{% endfor %}}
      At most {{{{ config.most }}}} sentences.

",
            cost = step + 1,
        );
        inputs.push(format!("Note{step}"));
    }
    let _ = write!(
        text,
        "  judge:
    description: Weigh what was found
    inputs: [{inputs}]
    output: Findings
    prompt: |
      {{{{ customer.name }}}} ({{{{ customer.tier }}}}) asks: {{{{ request.subject }}}}
",
        inputs = inputs.join(", "),
    );
    for step in 0..steps {
        let _ = writeln!(text, "      Aspect {step}: {{{{ note{step}.text }}}}");
    }
    let _ = write!(
        text,
        "
  write:
    description: Write the report
    inputs: [Customer, Findings]
    output: Draft
    prompt: {{template: desk{desk:03}/report}}

  approve_fast:
    description: Urgent reports of good customers go out as they are
    inputs: [Request, Customer, Draft]
    output: Approved
    pre: [urgent, gold]
    set: {{title: \"{{{{ draft.title }}}}\", text: \"{{{{ draft.text }}}}\", by: desk}}

  approve:
    description: Read it once more
    inputs: Draft
    output: Approved
    cost: 2
    prompt: |
      Correct this report. Title: {{{{ draft.title | trim }}}}

      {{{{ draft.text }}}}

goals:
  answered:
    description: The request is answered
    output: Approved
"
    );
    text
}
