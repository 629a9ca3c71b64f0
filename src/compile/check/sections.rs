//! Sections: which a file may have, by what kind of file it is (language.md 1).

use crate::decl::Name;
use crate::decl::module::{PLATFORM_SECTIONS, PROJECT_SECTIONS, SHARED_SECTIONS, WORKFLOW_SECTIONS};
use crate::diag::{Diagnostic, Diagnostics};

use super::super::load::{Loaded, LoadedModule, ModuleKind};

/// Reports sections that stand in the wrong kind of file.
pub(crate) fn check(loaded: &Loaded<'_>, findings: &mut Diagnostics) {
    for module in &loaded.modules {
        let allowed = allowed(module.kind);
        for key in module.keys.iter().filter(|key| !allowed.contains(&key.value.as_str())) {
            findings.extend(misplaced(module, key));
        }
    }
}

/// Whether a module has a section that it cannot have.
pub(crate) fn is_misplaced(module: &LoadedModule) -> bool {
    let allowed = allowed(module.kind);
    module.keys.iter().any(|key| !allowed.contains(&key.value.as_str()))
}

fn allowed(kind: ModuleKind) -> Vec<&'static str> {
    let own = match kind {
        ModuleKind::Project => PROJECT_SECTIONS,
        ModuleKind::Workflow => WORKFLOW_SECTIONS,
        ModuleKind::Shared => PLATFORM_SECTIONS,
    };
    [SHARED_SECTIONS, own].concat()
}

/// The finding for a section that another kind of file may have; one that no file has was reported when it was read.
fn misplaced(module: &LoadedModule, key: &Name) -> Option<Diagnostic> {
    let name = key.value.as_str();
    let of_workflow = WORKFLOW_SECTIONS.contains(&name);
    let of_project = PROJECT_SECTIONS.contains(&name);
    let (where_to, cure) = match (of_workflow, of_project) {
        (false, false) => return None,
        (true, false) if module.kind == ModuleKind::Shared => {
            ("a workflow file", "give this file an `agent: name`, or move the section into the file that has one")
        }
        (true, true) if module.kind == ModuleKind::Shared => {
            ("a workflow file or the project file", "give this file an `agent: name`, or move the section")
        }
        (true, _) => ("a workflow file", "move it into the file that has `agent:`"),
        (false, true) => ("the project file", "move it into `agent-run.yaml` at the project's root"),
    };
    Some(Diagnostic::error("misplaced-section", key.span, format!("`{name}` belongs into {where_to}")).help(cure))
}
