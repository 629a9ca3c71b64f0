//! Skills as a reference: their names and descriptions stand in the prompt, the rest is had by tools.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use serde_json::{Value, json};

use crate::action::context::{Context, Failure};
use crate::action::exec::Script;
use crate::action::{Body, Needs};
use crate::diag::suggest;
use crate::source::Sources;
use crate::tool::Tool;
use crate::tool::builtin::root::{Root, Words};
use crate::tool::builtin::{arguments, failure, optional, required, text};
use crate::tool::narrow::{Allowed, Narrowing};
use crate::value::{Field, ObjectDef, Shape, ShapeKind};
use crate::world::SystemWorld;

use super::super::directory::{Filter, Tree};
use super::super::git::Repository;
use super::super::{Content, Kept, Material, Mode, Reach};
use super::{Found, Skill};

/// Files of a skill that are listed.
const LISTED_MAX: usize = 200;
/// Files that the answer to an activation names.
const NAMED_MAX: usize = 50;
/// How long a script may run.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(60);
/// The directory of a skill's scripts.
const SCRIPTS: &str = "scripts";
/// Programs that run scripts which are not executable themselves, by their endings.
const INTERPRETERS: &[(&str, &str)] = &[
    ("bash", "bash"),
    ("js", "node"),
    ("mjs", "node"),
    ("pl", "perl"),
    ("py", "python3"),
    ("rb", "ruby"),
    ("sh", "sh"),
];

/// Skills of a directory of the project, or of a repository.
#[derive(Debug)]
pub struct Skills {
    /// The reference's name.
    name: String,
    /// The directory, relative to the project, or the repository's URL.
    place: String,
    from: From,
    /// Names and descriptions stand in the description of the tool instead of the prompt.
    in_tools: bool,
}

/// Where skills come from.
#[derive(Debug)]
enum From {
    /// A directory of the project, read when the program was compiled.
    Project(Arc<Found>),
    /// A repository; what was found in it once it is here, and where.
    Repository(Arc<Repository>, Filter, Mutex<Option<(PathBuf, Arc<Found>)>>),
}

impl Skills {
    /// The skills that were found in a directory of the project.
    pub fn new(name: &str, place: &str, found: Arc<Found>, mode: Mode) -> Skills {
        let in_tools = mode == Mode::Tools;
        Skills { name: name.to_owned(), place: place.to_owned(), from: From::Project(found), in_tools }
    }

    /// The skills of a repository whose `SKILL.md` the filter takes.
    pub fn of_repository(name: &str, repository: Repository, filter: Filter) -> Skills {
        let place = repository.place();
        let from = From::Repository(Arc::new(repository), filter, Mutex::default());
        Skills { name: name.to_owned(), place, from, in_tools: false }
    }

    /// What is known of them without going anywhere.
    fn known(&self) -> Option<Arc<Found>> {
        match &self.from {
            From::Project(found) => Some(Arc::clone(found)),
            From::Repository(.., cell) => lock(cell).as_ref().map(|(_, found)| Arc::clone(found)),
        }
    }

    /// The skills, and the directory that their paths are relative to.
    async fn found(&self, cx: &dyn Context) -> Result<(Root, Arc<Found>), Failure> {
        match &self.from {
            From::Project(found) => {
                let Some(project) = cx.world().root().map(Path::to_owned) else {
                    return Err(failure("the project is not on disk, so the files of its skills cannot be reached"));
                };
                Ok((blocking(move || Root::new(&project)).await?, Arc::clone(found)))
            }
            From::Repository(repository, filter, cell) => {
                let root = repository.root(cx).await?;
                let dir = root.dir().to_owned();
                if let Some((_, found)) = lock(cell).as_ref().filter(|(known, _)| *known == dir) {
                    return Ok((root, Arc::clone(found)));
                }
                let (within, filter) = (dir.clone(), filter.clone());
                let found = blocking(move || {
                    let world = SystemWorld::new(within);
                    let mut found = super::discover(&world, Path::new(""), &mut Sources::new());
                    let is_taken = |file: &Path| filter.takes(&super::shown(file));
                    found.skills.retain(|_, skill| is_taken(&skill.file));
                    found.wrong.retain(|wrong| wrong.file.as_deref().is_none_or(is_taken));
                    Ok(Arc::new(found))
                })
                .await?;
                for wrong in found.wrong.iter().flat_map(|wrong| &wrong.findings) {
                    cx.notice(
                        "bad-skill",
                        &format!("a skill of {} is left out: {}", self.place, wrong.diagnostic.message),
                    );
                }
                *lock(cell) = Some((dir, Arc::clone(&found)));
                Ok((root, found))
            }
        }
    }

    fn tool_name(&self, what: &str) -> String {
        format!("{}_{what}", self.name)
    }

    /// What a model reads of all skills.
    fn catalog(&self, found: &Found) -> String {
        let mut out = format!(
            "These skills are instructions for certain tasks. When a task fits the description of one, call `{}` with its \
             name first, and follow what it says.\n<available_skills>\n",
            self.tool_name("activate")
        );
        for skill in found.skills.values() {
            out.push_str(&format!(
                "<skill>\n<name>{}</name>\n<description>{}</description>\n<location>{}</location>\n</skill>\n",
                escaped(&skill.front.name),
                escaped(&skill.front.description),
                escaped(&super::shown(&skill.file)),
            ));
        }
        out.push_str("</available_skills>");
        out
    }

    /// The skill that is asked about.
    fn skill(&self, cx: &dyn Context, found: &Found) -> Result<Skill, Failure> {
        let name = text(arguments(cx), "name");
        found.skills.get(name).cloned().ok_or_else(|| {
            failure(format!(
                "there is no skill `{name}`; {}",
                suggest::near_or_all(name, found.skills.keys().map(String::as_str), "the skills")
            ))
        })
    }

    /// The skill that is asked about, and its directory.
    async fn asked(&self, cx: &dyn Context) -> Result<(Skill, Root), Failure> {
        let (base, found) = self.found(cx).await?;
        let skill = self.skill(cx, &found)?;
        let root = self.root(cx, base, &skill).await?;
        Ok((skill, root))
    }

    /// A file of a skill, as permissions speak of it.
    fn subject(&self, path: &Path) -> String {
        match &self.from {
            From::Project(_) => super::shown(path),
            From::Repository(repository, ..) => {
                format!("{}/{}", Tree::subject(&**repository).trim_end_matches('/'), super::shown(path))
            }
        }
    }

    /// The directory of a skill, which files do not leave.
    async fn root(&self, cx: &dyn Context, base: Root, skill: &Skill) -> Result<Root, Failure> {
        // A repository was permitted when it was fetched.
        if let From::Project(_) = self.from {
            cx.permit("files:read", &super::shown(&skill.dir))?;
        }
        let words = Words {
            place: format!("the skill `{}`", skill.front.name),
            list: self.tool_name("list_resources"),
            search: self.tool_name("list_resources"),
        };
        let path = skill.dir.clone();
        blocking(move || base.to(&path, words)).await
    }

    async fn activate(&self, cx: &dyn Context) -> Result<Value, Failure> {
        // A project that is not on disk, or may not be read, has the instructions alone.
        let (base, found) = match self.found(cx).await {
            Ok((base, found)) => (Some(base), found),
            Err(failure) => (None, self.known().ok_or(failure)?),
        };
        let skill = self.skill(cx, &found)?;
        let name = &skill.front.name;
        let mut out = format!("<skill_content name=\"{}\">\n{}\n", escaped(name), skill.front.body);
        if let Some(needs) = &skill.front.compatibility {
            out.push_str(&format!("\nIt needs: {needs}\n"));
        }
        let root = match base {
            Some(base) => self.root(cx, base, &skill).await.ok(),
            None => None,
        };
        let entries = match root {
            Some(root) => resources(root).await.map(|(entries, _)| entries).unwrap_or_default(),
            None => Vec::new(),
        };
        if !entries.is_empty() {
            out.push_str(&format!(
                "\nPaths are relative to the skill; `{}` reads a file, and scripts are run by `{}`.\n<skill_resources>\n",
                self.tool_name("read_resource"),
                self.tool_name("run_script")
            ));
            for (path, _) in entries.iter().take(NAMED_MAX) {
                out.push_str(&format!("<file>{}</file>\n", escaped(path)));
            }
            if entries.len() > NAMED_MAX {
                let all = self.tool_name("list_resources");
                out.push_str(&format!("… {} more; `{all}` lists them\n", entries.len() - NAMED_MAX));
            }
            out.push_str("</skill_resources>\n");
        }
        out.push_str("</skill_content>");
        Ok(Value::from(out))
    }

    async fn list(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let (skill, root) = self.asked(cx).await?;
        let (entries, is_cut) = resources(root).await?;
        if entries.is_empty() {
            return Ok(Value::from(format!("The skill `{}` has no files beside its instructions.", skill.front.name)));
        }
        let mut lines: Vec<String> =
            entries.iter().take(LISTED_MAX).map(|(path, bytes)| format!("{path} ({bytes} bytes)")).collect();
        if is_cut || entries.len() > LISTED_MAX {
            lines.push(format!("… there are more than the {} that are listed", lines.len()));
        }
        Ok(Value::from(lines.join("\n")))
    }

    async fn read(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let (_, root) = self.asked(cx).await?;
        let path = text(arguments(cx), "path").to_owned();
        blocking(move || root.text(&path).map(Value::from)).await
    }

    async fn run(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let (skill, root) = self.asked(cx).await?;
        let given = arguments(cx);
        let script = text(given, "script").trim();
        let script = script.strip_prefix("./").unwrap_or(script);
        let path = if script.starts_with("scripts/") { script.to_owned() } else { format!("{SCRIPTS}/{script}") };
        let subject = self.subject(&skill.dir.join(&path));
        let file = {
            let (root, path) = (root.clone(), path.clone());
            blocking(move || root.existing(&path)).await?
        };
        if !file.is_file() {
            return Err(failure(format!("`{path}` is no script")));
        }
        let args = given.get("args").and_then(Value::as_array).into_iter().flatten();
        let args: Vec<String> = args.filter_map(Value::as_str).map(str::to_owned).collect();
        let (program, mut arguments) = program_of(&file, &path)?;
        arguments.extend(args);
        let script = Script {
            subject,
            program,
            arguments,
            dir: root.dir().to_owned(),
            stdin: given.get("input").and_then(Value::as_str).map(str::to_owned),
            timeout: SCRIPT_TIMEOUT,
        };
        if cx.dry_run() {
            cx.permit("exec", &script.subject)?;
            return Ok(json!({"dry_run": true, "script": script.subject, "arguments": given.get("args")}));
        }
        cx.effect("exec", async move { script.run(cx).await.map(|ended| said(&ended)) }.boxed()).await
    }
}

/// What a model reads of a script that has ended.
fn said(ended: &crate::action::exec::Ended) -> Value {
    let mut parts = Vec::new();
    if !ended.stdout.trim().is_empty() {
        parts.push(ended.stdout.trim_end().to_owned());
    }
    if !ended.stderr.trim().is_empty() {
        parts.push(format!("[error output]\n{}", ended.stderr.trim_end()));
    }
    match ended.status {
        Some(0) if parts.is_empty() => parts.push("[it ended well and wrote nothing]".to_owned()),
        Some(0) => {}
        Some(status) => parts.push(format!("[it ended with status {status}]")),
        None => parts.push("[it was ended by a signal]".to_owned()),
    }
    Value::from(parts.join("\n"))
}

/// The program that would run a script on this machine.
///
/// # Errors
/// Says why nothing runs it.
pub fn runs_with(file: &Path) -> Result<String, String> {
    let shown = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (program, _) = program_of(file, &shown).map_err(|failure| failure.message)?;
    match program.contains('/') || crate::action::sandbox::is_installed(&program) {
        true => Ok(program),
        false => Err(format!("`{shown}` needs `{program}`, which is not installed")),
    }
}

/// The program that runs a script, and the arguments before the script's own.
fn program_of(file: &Path, shown: &str) -> Result<(String, Vec<String>), Failure> {
    let whole = file.to_string_lossy().into_owned();
    if is_executable(file) {
        return Ok((whole, Vec::new()));
    }
    let ending = file.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    match INTERPRETERS.iter().find(|(known, _)| *known == ending) {
        Some((_, program)) => Ok(((*program).to_owned(), vec![whole])),
        None => {
            let known: Vec<&str> = INTERPRETERS.iter().map(|(ending, _)| *ending).collect();
            let message =
                format!("`{shown}` is not executable, and its name does not say what runs it (.{})", known.join(", ."));
            Err(failure(message))
        }
    }
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|about| about.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

/// The files of a skill with their sizes, but for its `SKILL.md`; and whether there are more than were looked at.
async fn resources(root: Root) -> Result<(Vec<(String, u64)>, bool), Failure> {
    blocking(move || {
        let (entries, is_cut) = root.list("", true)?;
        let own = |path: &str| super::FILE_NAMES.contains(&path);
        Ok((
            entries.into_iter().filter(|entry| !own(&entry.path)).map(|entry| (entry.path, entry.bytes)).collect(),
            is_cut,
        ))
    })
    .await
}

/// Does what waits for the disk where it holds up no one.
async fn blocking<T: Send + 'static>(does: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(does).await.unwrap_or_else(|_| Err(failure("the files could not be reached")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[async_trait]
impl Material for Skills {
    fn kind(&self) -> &'static str {
        "skills"
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn is_own(&self) -> bool {
        true
    }

    fn is_remote(&self) -> bool {
        matches!(self.from, From::Repository(..))
    }

    async fn content(&self, cx: &dyn Context, _: Mode, reach: Reach) -> Result<Content, Failure> {
        let is_here = match (&self.from, cx.world().root()) {
            (From::Repository(repository, ..), Some(root)) => repository.kept(root).is_some(),
            _ => true,
        };
        if reach == Reach::Kept && !is_here {
            return Ok(Content::Missing("the repository is not here; a run fetches it".to_owned()));
        }
        let found = match (&self.from, self.known()) {
            (From::Project(_), Some(found)) => found,
            _ => self.found(cx).await?.1,
        };
        Ok(match found.skills.is_empty() {
            true => Content::Text(Arc::from("(there are no skills)")),
            false => Content::Text(Arc::from(self.catalog(&found))),
        })
    }

    fn kept(&self, root: &Path) -> Option<Kept> {
        match &self.from {
            From::Project(_) => None,
            From::Repository(repository, ..) => repository.kept(root),
        }
    }

    async fn refresh(&self, cx: &dyn Context) -> Result<Option<String>, Failure> {
        match &self.from {
            From::Project(_) => Ok(None),
            From::Repository(repository, ..) => repository.refresh(cx).await,
        }
    }

    fn tools(self: Arc<Self>, _: &str) -> Vec<Tool> {
        // Tools for skills that are not there would only confuse.
        let known = self.known();
        if known.as_ref().is_some_and(|found| found.skills.is_empty()) {
            return Vec::new();
        }
        let skills = || known.iter().flat_map(|found| found.skills.values());
        let names: Vec<Value> = skills().map(|skill| Value::from(skill.front.name.as_str())).collect();
        let name = || match names.is_empty() {
            true => required(ShapeKind::String, "The skill"),
            false => required(ShapeKind::Enum(names.clone()), "The skill"),
        };
        let mut about =
            "Gives the instructions of a skill. Call it before you work on what the skill is for.".to_owned();
        if let Some(found) = known.as_ref().filter(|_| self.in_tools) {
            about = format!("{about}\n\n{}", self.catalog(found));
        }
        let script =
            "Runs a script of a skill, in the skill's directory, and gives what it wrote. It cannot ask anything.";
        let args =
            Field { shape: Shape::new(ShapeKind::List(Box::new(Shape::new(ShapeKind::String)))), required: false };
        let args = Field { shape: args.shape.described("Its arguments"), ..args };
        let mut acts = vec![
            (Act::Activate, "activate", about, vec![("name", name())], true),
            (Act::List, "list_resources", "Lists the files of a skill.".to_owned(), vec![("name", name())], true),
            (
                Act::Read,
                "read_resource",
                "Reads a text file of a skill.".to_owned(),
                vec![
                    ("name", name()),
                    ("path", required(ShapeKind::String, "Relative to the skill, such as references/guide.md")),
                ],
                true,
            ),
        ];
        // What a repository has is not known before it is here.
        if known.is_none() || skills().any(|skill| skill.has_scripts) {
            let parameters = vec![
                ("name", name()),
                ("script", required(ShapeKind::String, "Its path, such as scripts/check.py")),
                ("args", args),
                ("input", optional(ShapeKind::String, "What it reads from its standard input")),
            ];
            acts.push((Act::Run, "run_script", script.to_owned(), parameters, false));
        }
        let always: Vec<String> = acts.iter().map(|(_, what, ..)| self.tool_name(what)).collect();
        let tools = acts.into_iter().map(|(act, what, about, parameters, trusted)| {
            let fields = parameters.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
            let body = Using { of: Arc::clone(&self), act };
            let tool = Tool::new(
                self.tool_name(what),
                about,
                ObjectDef { fields, ..ObjectDef::default() },
                Some(Arc::new(body)),
            );
            let narrows = (act == Act::Activate).then(|| Arc::new(narrowing(&self, always.clone())));
            // A script may have done what it does before a crash; whether that matters its author knows, and says `confirm`.
            Tool { trusted, narrows, ..tool }
        });
        tools.collect()
    }

    fn acts(&self) -> bool {
        true
    }
}

/// What the skills allow while they are in use.
fn narrowing(of: &Arc<Skills>, always: Vec<String>) -> Narrowing {
    let of = Arc::clone(of);
    let allows = move |name: &str| {
        let allowed = of.known()?.skills.get(name)?.front.allowed_tools.clone()?;
        Some(allowed.iter().map(|written| Allowed::read(written)).collect())
    };
    Narrowing { what: "the skill".to_owned(), by: "name".to_owned(), allows: Arc::new(allows), always }
}

/// What a tool of skills does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Activate,
    List,
    Read,
    Run,
}

/// The body of a tool of skills.
#[derive(Debug)]
struct Using {
    of: Arc<Skills>,
    act: Act,
}

#[async_trait]
impl Body for Using {
    fn kind(&self) -> &'static str {
        "skill"
    }

    fn needs(&self) -> Needs {
        let permission = match self.act {
            Act::Activate | Act::List | Act::Read => "files:read",
            Act::Run => "exec",
        };
        let mut permissions = vec![permission.to_owned()];
        if let From::Repository(repository, ..) = &self.of.from
            && repository.permission() != permission
        {
            permissions.push(repository.permission().to_owned());
        }
        Needs { permissions, ..Needs::default() }
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        match self.act {
            Act::Activate => self.of.activate(cx).await,
            Act::List => self.of.list(cx).await,
            Act::Read => self.of.read(cx).await,
            Act::Run => self.of.run(cx).await,
        }
    }
}
