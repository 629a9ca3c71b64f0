//! The flags and verbs of the command line (cli.md), as clap sees them. Nothing is resolved here.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A declarative, config-driven agent engine: write agents as YAML, run them to their goal.
#[derive(Debug, Parser)]
#[command(name = "agent-run", version, propagate_version = false, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// Flags that every verb takes, before or after it.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags that every verb takes.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// The project's root, where `agent-run.yaml` is
    #[arg(long, global = true, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print exactly one JSON document to stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// Print the result only
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Show planning in detail
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// When to use color
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
}

/// When to use color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What the command does.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run an agent to its goal (`agent-run FILE …` is the same)
    Run(RunArgs),
    /// Show the plan from the given inputs; nothing is run
    Plan(PlanArgs),
    /// Report every error and warning; no model is called
    Check(CheckArgs),
    /// Show the exact request that an action's LLM call would send
    Render(RenderArgs),
    /// Run the test files: cases on a scripted model, snapshots of prompts
    Test(TestArgs),
    /// Show the compiled planning domain
    Domain(DomainArgs),
    /// Draw the domain and the plan's way through it
    Graph(GraphArgs),
    /// Solve a grounded planning problem
    Solve(SolveArgs),
    /// Print the JSON Schema of a kind of file, for editors
    Schema(SchemaArgs),
    /// Explain a diagnostic: what it means, an example, its cure
    Explain(ExplainArgs),
    /// Show tools as a model would see them, or call one
    Tools(ToolsArgs),
    /// List the models that are configured
    Models(ModelsArgs),
    /// List the references that models are offered
    References(ReferencesArgs),
    /// List the skills that are configured, or judge directories of skills
    Skills(SkillsArgs),
    /// Talk with an agent
    Chat(ChatArgs),
    /// List the processes that are kept
    Ps,
    /// Show everything about a process that is kept
    Show(ProcessArgs),
    /// Go on with a process that waits or was interrupted
    Resume(ResumeArgs),
    /// End a process
    Kill(ProcessArgs),
    /// An interactive session: verbs without `agent-run`, history, completion
    Shell(ShellArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the version
    Version,
}

/// What a run or plan starts from.
#[derive(Args, Clone, Debug, Default)]
pub struct InputArgs {
    /// Text that becomes a `UserInput`
    #[arg(value_name = "INPUT")]
    pub text: Vec<String>,
    /// A typed object: `TYPE=JSON`, `TYPE=@FILE`, `JSON`, `@FILE`, or `-` for standard input (repeatable)
    #[arg(short, long = "input", value_name = "TYPE=JSON|@FILE|-")]
    pub inputs: Vec<String>,
    /// Change a value of `config` (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub config: Vec<String>,
    /// Only this goal counts
    #[arg(long, value_name = "NAME")]
    pub goal: Option<String>,
    /// Only goals that output this type count
    #[arg(long, value_name = "TYPE")]
    pub returns: Option<String>,
    /// Another planner than the file's: goap, utility, hybrid or supervisor
    #[arg(long, value_name = "KIND")]
    pub planner: Option<String>,
}

/// Where models answer.
#[derive(Args, Clone, Debug, Default)]
pub struct ModelArgs {
    /// Use another model for a role; `default` is the default model (repeatable)
    #[arg(long = "llm", value_name = "ROLE=MODEL")]
    pub llm: Vec<String>,
    /// All models answer from this script; clock and ids are fixed
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// All models answer as they did in this recording; clock and ids are fixed
    #[arg(long, value_name = "FILE", conflicts_with = "script")]
    pub replay: Option<PathBuf>,
    /// The fixed clock
    #[arg(long, value_name = "TIME")]
    pub now: Option<String>,
}

impl ModelArgs {
    /// The script that all models answer from.
    pub fn script(&self) -> Option<&std::path::Path> {
        self.script.as_deref().or(self.replay.as_deref())
    }
}

/// Flags of `run`.
#[derive(Args, Clone, Debug, Default)]
pub struct RunArgs {
    /// A workflow file, or an agent's name; without one a model chooses the agent that serves INPUT best
    #[arg(value_name = "FILE|AGENT")]
    pub target: Option<String>,
    /// Choose a goal instead, and put an agent for it together from all actions of the project
    #[arg(long)]
    pub open: bool,
    /// What it starts from.
    #[command(flatten)]
    pub input: InputArgs,
    /// Where models answer.
    #[command(flatten)]
    pub model: ModelArgs,
    /// At most so many actions
    #[arg(long, value_name = "N")]
    pub max_actions: Option<u64>,
    /// At most so many US dollars
    #[arg(long, value_name = "USD")]
    pub max_cost: Option<f64>,
    /// At most so many tokens
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// At most so long, such as `5m`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Show the prompts that are sent
    #[arg(short = 'p', long)]
    pub show_prompts: bool,
    /// Show the replies that come back
    #[arg(short = 'r', long)]
    pub show_responses: bool,
    /// Write events as JSON lines to a file, or `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    pub events: Option<PathBuf>,
    /// Write what models are asked and answer as a script, for `--replay` and tests
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// What would write, send or execute shows its arguments and returns a stub
    #[arg(long)]
    pub dry_run: bool,
    /// Take edits of the files while it runs, and run again at each edit after its end
    #[arg(long, conflicts_with_all = ["json", "record"])]
    pub watch: bool,
    /// Keep nothing of the run
    #[arg(long, conflicts_with = "context")]
    pub no_store: bool,
    /// Start with what earlier runs of this context kept (`keep: […]`), and keep it for later ones
    #[arg(long, value_name = "ID")]
    pub context: Option<String>,
    /// Agree to every confirmation
    #[arg(short, long)]
    pub yes: bool,
}

/// Flags of `chat`.
#[derive(Args, Clone, Debug, Default)]
pub struct ChatArgs {
    /// A workflow file, or an agent's name; default: the project's only chat
    #[arg(value_name = "FILE|AGENT")]
    pub target: Option<String>,
    /// What it starts from.
    #[command(flatten)]
    pub input: InputArgs,
    /// Where models answer.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Show the prompts that are sent
    #[arg(short = 'p', long)]
    pub show_prompts: bool,
    /// Load objects of the agent's `keep` types at the start, and save them at the end, under this id
    #[arg(long, value_name = "ID")]
    pub context: Option<String>,
    /// Keep nothing of the chat
    #[arg(long)]
    pub no_store: bool,
    /// Agree to every confirmation
    #[arg(short, long)]
    pub yes: bool,
}

/// Flags of `shell`.
#[derive(Args, Clone, Debug, Default)]
pub struct ShellArgs {
    /// Show the prompts that runs send
    #[arg(short = 'p', long)]
    pub show_prompts: bool,
    /// Show the replies that come back
    #[arg(short = 'r', long)]
    pub show_responses: bool,
}

/// Flags of `show` and `kill`.
#[derive(Args, Clone, Debug, Default)]
pub struct ProcessArgs {
    /// The process's id, the beginning of one, or `@last` for the newest
    #[arg(value_name = "ID")]
    pub process: String,
}

/// Flags of `resume`.
#[derive(Args, Clone, Debug, Default)]
pub struct ResumeArgs {
    /// The process's id, the beginning of one, or `@last` for the newest
    #[arg(value_name = "ID")]
    pub process: String,
    /// The answer that the process waits for: JSON, `@FILE`, or `-` for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub form: Option<String>,
    /// Where models answer.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Show the prompts that are sent
    #[arg(short = 'p', long)]
    pub show_prompts: bool,
    /// Show the replies that come back
    #[arg(short = 'r', long)]
    pub show_responses: bool,
    /// Write events as JSON lines to a file, or `-` for stdout
    #[arg(long, value_name = "FILE|-")]
    pub events: Option<PathBuf>,
    /// Agree to every confirmation
    #[arg(short, long)]
    pub yes: bool,
}

/// Flags of `plan`.
#[derive(Args, Clone, Debug, Default)]
pub struct PlanArgs {
    /// A workflow file, or an agent's name; without one a model chooses the agent that serves INPUT best
    #[arg(value_name = "FILE|AGENT")]
    pub target: Option<String>,
    /// Choose a goal instead, and put an agent for it together from all actions of the project
    #[arg(long)]
    pub open: bool,
    /// What it starts from; default: the agent's declared inputs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Take a fact as true (`not FACT`: as false) at the start (repeatable)
    #[arg(long, value_name = "FACT")]
    pub assume: Vec<String>,
    /// Plan without an action (repeatable)
    #[arg(long, value_name = "ACTION")]
    pub without: Vec<String>,
    /// Show so many further plans, the next best first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=1000))]
    pub alternatives: Option<u16>,
    /// Give up planning after so long, such as `10s`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Where models answer; `plan` asks none, but clock and ids are fixed as in `run`.
    #[command(flatten)]
    pub model: ModelArgs,
}

/// Flags of `check`.
#[derive(Args, Clone, Debug, Default)]
pub struct CheckArgs {
    /// Files or directories; default: the whole project
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Apply the corrections that are sure
    #[arg(long)]
    pub fix: bool,
    /// Check again at each edit
    #[arg(long, conflicts_with_all = ["fix", "json"])]
    pub watch: bool,
    /// Warnings are errors
    #[arg(long)]
    pub strict: bool,
    /// How findings are shown
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub format: Format,
}

/// How findings are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// With the source line and carets.
    #[default]
    Human,
    /// One line each.
    Short,
}

/// Flags of `render`.
#[derive(Args, Clone, Debug, Default)]
pub struct RenderArgs {
    /// A workflow file, or an agent's name
    #[arg(value_name = "FILE|AGENT")]
    pub target: String,
    /// The action
    #[arg(value_name = "ACTION")]
    pub action: String,
    /// A typed object: `TYPE=JSON`, `TYPE=@FILE`, `JSON`, `@FILE`, or `-` (repeatable)
    #[arg(short, long = "input", value_name = "TYPE=JSON|@FILE|-")]
    pub inputs: Vec<String>,
    /// Change a value of `config` (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub config: Vec<String>,
    /// Make up the inputs that are not given from their types
    #[arg(long)]
    pub sample: bool,
    /// The request that a case of a test file comes to
    #[arg(long, value_name = "FILE::CASE", conflicts_with_all = ["inputs", "sample", "config", "llm"])]
    pub case: Option<String>,
    /// Print the body that a kind of provider sends: openai, anthropic, gemini, ollama or bedrock
    #[arg(long, value_name = "KIND")]
    pub wire: Option<String>,
    /// Use another model for a role (repeatable)
    #[arg(long = "llm", value_name = "ROLE=MODEL")]
    pub llm: Vec<String>,
    /// The fixed clock
    #[arg(long, value_name = "TIME")]
    pub now: Option<String>,
}

/// Flags of `tools`.
#[derive(Args, Clone, Debug)]
pub struct ToolsArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub verb: ToolsVerb,
}

/// What `tools` does.
#[derive(Clone, Debug, Subcommand)]
pub enum ToolsVerb {
    /// Name and describe them
    List(ToolsOf),
    /// Draw what unfolds, with the tokens it takes folded and unfolded
    Tree(ToolsOf),
    /// Print a provider's wire form
    Schema(ToolsSchema),
    /// Call one by hand
    Call(ToolsCall),
}

/// Whose tools are meant.
#[derive(Args, Clone, Debug)]
pub struct ToolsOf {
    /// A workflow file, or an agent's name
    #[arg(value_name = "FILE|AGENT")]
    pub target: String,
    /// Only what this action offers in its first turn
    #[arg(value_name = "ACTION")]
    pub action: Option<String>,
}

/// Flags of `tools schema`.
#[derive(Args, Clone, Debug)]
pub struct ToolsSchema {
    /// Whose tools are meant.
    #[command(flatten)]
    pub of: ToolsOf,
    /// The wire form: openai, responses, anthropic, bedrock, gemini, ollama or mcp
    #[arg(long = "for", value_name = "FORM", default_value = "mcp")]
    pub form: String,
    /// Fail, naming the tools, unless all of them go out strictly (openai, responses, anthropic, bedrock)
    #[arg(long)]
    pub strict: bool,
}

/// Flags of `tools call`.
#[derive(Args, Clone, Debug)]
pub struct ToolsCall {
    /// A workflow file, or an agent's name
    #[arg(value_name = "FILE|AGENT")]
    pub target: String,
    /// The tool
    #[arg(value_name = "TOOL")]
    pub tool: String,
    /// The arguments, a JSON object
    #[arg(value_name = "JSON", default_value = "{}")]
    pub arguments: String,
    /// Show what would write, send or execute instead of doing it
    #[arg(long)]
    pub dry_run: bool,
    /// Agree to confirmations
    #[arg(long)]
    pub yes: bool,
    /// Where models answer.
    #[command(flatten)]
    pub model: ModelArgs,
}

/// Flags of `test`.
#[derive(Args, Clone, Debug, Default)]
pub struct TestArgs {
    /// Test files or directories, or `FILE::CASE`; default: the project's tests
    #[arg(value_name = "PATH")]
    pub paths: Vec<String>,
    /// Accept new and changed snapshots
    #[arg(long)]
    pub update: bool,
    /// Walk through new and changed snapshots: accept, reject or skip each
    #[arg(long, conflicts_with_all = ["update", "ci", "json"])]
    pub review: bool,
    /// Write nothing (`CI=true` does the same)
    #[arg(long, conflicts_with_all = ["update", "prune"])]
    pub ci: bool,
    /// Remove snapshots that no case has any more
    #[arg(long)]
    pub prune: bool,
    /// Run them again at each edit
    #[arg(long, conflicts_with_all = ["review", "json", "junit", "init"])]
    pub watch: bool,
    /// Only cases whose `file::name` contains this (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Begin no further case after one has failed
    #[arg(long)]
    pub fail_fast: bool,
    /// Write a report as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Show which actions, goals, templates and branches of templates the cases reach
    #[arg(long)]
    pub coverage: bool,
    /// Cases at one time; default: as many as there are processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// The model that answers `judge` checks, as `provider/id`
    #[arg(long, value_name = "MODEL")]
    pub judge: Option<String>,
    /// Write a first test file for a workflow
    #[arg(long, value_name = "WORKFLOW", conflicts_with_all = ["paths", "update", "review", "prune", "junit"])]
    pub init: Option<String>,
}

/// Flags of `domain`.
#[derive(Args, Clone, Debug, Default)]
pub struct DomainArgs {
    /// A workflow file, or an agent's name
    #[arg(value_name = "FILE|AGENT")]
    pub target: String,
    /// The form
    #[arg(long, value_enum, default_value_t = DomainFormat::Json)]
    pub format: DomainFormat,
    /// The goal of the problem, in PDDL; default: the one that a plan would be made for
    #[arg(long, value_name = "NAME")]
    pub goal: Option<String>,
    /// Write `domain.pddl` and `problem.pddl` to this directory instead of printing them
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// The form of a printed domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DomainFormat {
    /// JSON; with a `start` it is a problem for `solve`.
    #[default]
    Json,
    /// PDDL, domain and problem, for other planners.
    Pddl,
}

/// Words of `skills`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SkillsArgs {
    /// A workflow file or an agent's name; default: the whole project
    #[arg(value_name = "FILE|AGENT")]
    pub target: Option<String>,
    /// See whether the files are read and scripts can be run
    #[arg(long)]
    pub ping: bool,
    /// What else is done
    #[command(subcommand)]
    pub verb: Option<SkillsVerb>,
}

/// What is done with skills.
#[derive(Clone, Debug, Subcommand)]
pub enum SkillsVerb {
    /// Judge skills by the rules of their format
    Validate {
        /// Directories of a skill, or of several
        #[arg(value_name = "DIR", required = true)]
        dirs: Vec<PathBuf>,
    },
}

/// Flags of `graph`.
#[derive(Args, Clone, Debug, Default)]
pub struct GraphArgs {
    /// A workflow file, or an agent's name
    #[arg(value_name = "FILE|AGENT")]
    pub target: String,
    /// The form
    #[arg(long, value_enum, default_value_t = GraphFormat::Mermaid)]
    pub format: GraphFormat,
}

/// The form of a drawn domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    /// A Mermaid flowchart.
    #[default]
    Mermaid,
    /// The DOT language of Graphviz.
    Dot,
    /// A drawing.
    Svg,
}

/// Flags of `solve`.
#[derive(Args, Clone, Debug, Default)]
pub struct SolveArgs {
    /// The problem, or `-` for standard input
    #[arg(value_name = "PROBLEM.json")]
    pub problem: PathBuf,
    /// Give up after so long
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub time_limit: Option<Duration>,
    /// Give up before the search's tables take more than so much, such as `512MiB`; default: 1GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_limit: Option<usize>,
}

/// Flags of `schema`.
#[derive(Args, Clone, Debug, Default)]
pub struct SchemaArgs {
    /// The kind of file
    #[arg(value_enum, default_value_t = SchemaKind::Workflow)]
    pub kind: SchemaKind,
}

/// Kinds of files that have a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// Workflow files and other modules.
    #[default]
    Workflow,
    /// `agent-run.yaml`.
    Project,
    /// Reference sets.
    References,
    /// Test files.
    Test,
    /// Scripts and recordings.
    Script,
}

impl SchemaKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            SchemaKind::Workflow => "workflow",
            SchemaKind::Project => "project",
            SchemaKind::References => "references",
            SchemaKind::Test => "test",
            SchemaKind::Script => "script",
        }
    }
}

/// Flags of `explain`.
#[derive(Args, Clone, Debug, Default)]
pub struct ExplainArgs {
    /// The code, such as `unknown-key`; without it all codes are listed
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}

/// Flags of `models`.
#[derive(Args, Clone, Debug, Default)]
pub struct ModelsArgs {
    /// A workflow file whose models are meant; default: the project's
    #[arg(value_name = "FILE")]
    pub target: Option<String>,
    /// Ask each model for a word, to see whether it answers
    #[arg(long)]
    pub ping: bool,
}

/// Flags of `references`.
#[derive(Args, Clone, Debug)]
pub struct ReferencesArgs {
    /// A workflow file or agent whose references are meant; default: the project's
    #[arg(value_name = "FILE|AGENT")]
    pub target: Option<String>,
    /// Ask each whether it answers
    #[arg(long)]
    pub ping: bool,
    /// Fetch each anew: pages, documents, and what a branch of a repository is now
    #[arg(long, conflicts_with = "ping")]
    pub update: bool,
}

/// Flags of `completions`.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = crate::decl::Duration::parse(text);
    parsed
        .map(|duration| duration.0)
        .ok_or_else(|| "expected a duration such as `500ms`, `30s`, `5m` or `2h`".to_owned())
}

/// A number of bytes with a unit, such as `512MiB`.
fn size(text: &str) -> Result<usize, String> {
    let wrong = || "expected a size such as `64KiB`, `512MiB` or `2GiB`".to_owned();
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit);
    let bytes: f64 = match unit.trim() {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Ok((number * bytes) as usize)
}

/// Puts `run` before a first argument that is a workflow file, so that `agent-run FILE …` and a `#!` line work.
pub fn with_verb(mut args: Vec<std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    let takes_value = ["--project", "--color"];
    let mut index = 1;
    while let Some(arg) = args.get(index).and_then(|arg| arg.to_str()) {
        if takes_value.contains(&arg) {
            index += 2;
            continue;
        }
        if arg.starts_with('-') {
            index += 1;
            continue;
        }
        let is_file = [".yaml", ".yml", ".toml"].iter().any(|end| arg.ends_with(end));
        if is_file {
            args.insert(index, "run".into());
        }
        break;
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!((size("64KiB"), size("1.5 MiB"), size("2GB")), (Ok(65_536), Ok(1_572_864), Ok(2_000_000_000)));
        for wrong in ["", "64", "MiB", "-1MiB", "1.2.3MiB", "1TiBs", "1 mib"] {
            assert!(size(wrong).is_err_and(|why| why.contains("`512MiB`")), "{wrong}");
        }
    }

    #[test]
    fn a_file_alone_is_run() {
        let args = |line: &str| with_verb(line.split(' ').map(Into::into).collect());
        assert_eq!(args("agent-run --json w.yaml hi")[2], "run");
        assert_eq!(args("agent-run check w.yaml")[1], "check");
        let cli = Cli::try_parse_from(args("agent-run --project d w.toml hi there -q")).expect("parses");
        let Verb::Run(run) = cli.verb else { panic!("not a run") };
        assert_eq!(
            (run.target.as_deref().unwrap_or_default(), run.input.text.len(), cli.global.quiet),
            ("w.toml", 2, true)
        );
    }
}
