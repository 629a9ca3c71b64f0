//! Tools, tool groups and what prompts offer: from what is written to what a process resolves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;

use crate::action::Body;
use crate::action::context::{CallSettings, OfferId};
use crate::action::lower::ToolRef;
use crate::decl::body::BodyNode;
use crate::decl::tools::{Confirm as ConfirmDecl, DerivedTool, GroupSource, Tool as ToolDecl, ToolUse};
use crate::decl::{Name, ReadCx, Template};
use crate::diag::Diagnostic;
use crate::llm::OutputSchema;
use crate::program::Input;
use crate::prompt::{Scope, TemplateId, Ty};
use crate::tool::agentic::{Agentic, Machine, Order, Unlock};
use crate::tool::group::{Group, Source, Take};
use crate::tool::offer::{Derived, Offer, Use};
use crate::tool::unfold::{BY, NESTING_MAX, Unfold};
use crate::tool::{Confirm, OnCollision, Returns, Tool, handoff};
use crate::value::{Field, ObjectDef, Open, Output, OutputKind, Shape, ShapeKind, TypeId, schema_of_type};

use super::agent::AgentCx;
use super::check;
use super::check::unfolding::UnfoldDecl;
use super::heads::ActionHead;
use super::settings::Layers;
use super::types;

/// What an agent has of tools beside its table of them.
#[derive(Debug, Default)]
pub(crate) struct Tooling {
    /// Its tool groups.
    pub(crate) groups: IndexMap<String, Group>,
    /// Tools of the objects of a type.
    pub(crate) of_objects: BTreeMap<TypeId, Vec<Arc<Tool>>>,
    /// What its prompts offer.
    pub(crate) offers: Vec<Offer>,
    /// Groups of built-in tools that are used.
    built_in: IndexMap<String, Vec<Arc<Tool>>>,
    /// Agents as tools.
    hand_offs: IndexMap<String, Arc<Tool>>,
    /// How many facades stand around the tool that is lowered.
    depth: usize,
}

/// What the tools of an action have to do with the blackboard.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolTypes {
    /// Types whose objects must be there.
    pub(crate) required: Vec<TypeId>,
    /// Types whose objects may come.
    pub(crate) published: Vec<TypeId>,
}

/// A tool of a list, as far as it is known before a run.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// The name that it is offered by.
    pub(crate) name: String,
    /// The tool.
    pub(crate) tool: Arc<Tool>,
    /// What it has of its own.
    pub(crate) derived: Option<Derived>,
}

/// The parameter of an `agentic` tool that declares none.
const REQUEST: &str = "request";

impl<'a> AgentCx<'a> {
    /// Lowers the tools: those that call other tools last, so that what they touch is known.
    pub(crate) fn lower_tools(&mut self, defaults: &Layers<'_>) {
        let heads = self.heads;
        for calling in [false, true] {
            for decl in heads.visible.tools.values() {
                let calls = decl.decl.body.as_ref().is_some_and(|body| body.kind.value == "call");
                if calls == calling {
                    let tool = self.tool(decl.name, decl.decl, None, defaults);
                    self.tools.insert(decl.name.value.clone(), Arc::new(tool));
                }
            }
        }
        for decl in heads.visible.types.values().chain(heads.visible.states.values()) {
            let Some(owner) = self.types().id(&decl.name.value) else { continue };
            let tools: Vec<Arc<Tool>> = decl
                .decl
                .tools
                .iter()
                .map(|(name, tool)| Arc::new(self.tool(name, tool, Some(owner), defaults)))
                .collect();
            if !tools.is_empty() {
                self.tooling.of_objects.insert(owner, tools);
            }
        }
        for group in heads.visible.tool_groups.values() {
            let mut sources = Vec::new();
            for source in group.decl.from.iter() {
                sources.extend(self.source(source, defaults));
            }
            let texts = |list: &crate::decl::List<Name>| list.iter().map(|name| name.value.clone()).collect();
            let group = Group {
                name: group.name.value.clone(),
                description: group.decl.description.as_ref().map(|text| text.0.value.clone()),
                sources,
                permissions: group.decl.permissions.as_ref().map(texts),
            };
            self.tooling.groups.insert(group.name.clone(), group);
        }
    }

    fn source(&mut self, source: &GroupSource, defaults: &Layers<'_>) -> Option<Source> {
        let texts = |list: &crate::decl::List<Name>| list.iter().map(|name| name.value.clone()).collect();
        let take = Take {
            include: texts(&source.include),
            exclude: texts(&source.exclude),
            prefix: source.prefix.as_ref().map(|prefix| prefix.value.clone()).unwrap_or_default(),
        };
        if let Some(server) = &source.mcp {
            return Some(Source::Server { server: server.value.clone(), take });
        }
        let tools = source.tools.as_ref()?;
        Some(Source::Tools { tools: self.uses(tools.iter(), &[], defaults), take })
    }

    /// Lowers one tool. What is wrong with it is reported; it is made as far as it can be.
    fn tool(&mut self, name: &Name, decl: &ToolDecl, owner: Option<TypeId>, defaults: &Layers<'_>) -> Tool {
        let mut parameters = check::tools::head(self, name, decl);
        let head = &decl.head;
        let kind = decl.body.as_ref().map_or("", |body| body.kind.value.as_str());
        let unfolding = decl.body.as_ref().filter(|_| kind == "unfold").map(|body| self.read_unfold(body));
        if let Some(unfolding) = &unfolding {
            parameters = self.facade_parameters(unfolding);
        }
        if kind == "agentic" && parameters.fields.is_empty() {
            let shape =
                Shape::new(ShapeKind::String).described("What is to be done, with everything that must be known");
            parameters.fields.insert(REQUEST.to_owned(), Field { shape, required: true });
        }
        let mut scope = self.base_scope();
        for (parameter, field) in &parameters.fields {
            let ty = Ty::of(self.types(), &field.shape);
            let surely = field.required || field.shape.constraints.default.is_some();
            scope.vars.insert(parameter.clone(), if surely { ty } else { ty.optional() });
        }
        if let Some(owner) = owner {
            scope.vars.insert("self".to_owned(), Ty::named(self.types(), owner));
        }
        let publish = head.publish.as_ref().and_then(|name| self.types().id(&name.value));
        let server = decl.body.as_ref().filter(|_| kind == "mcp");
        let server = server.and_then(|body| check::tools::mcp(self, body, head.idempotent));
        let described_by = server.clone().filter(|_| parameters.fields.is_empty());
        if described_by.is_some() {
            // What the server takes is known once it runs.
            parameters.open = Open::Any;
        }
        let (body, unfold) = match (&decl.body, unfolding) {
            (Some(_), None) if kind == "mcp" => (server.map(|body| Arc::new(body) as Arc<dyn Body>), None),
            (Some(body), Some(unfolding)) => (None, self.unfold(body, unfolding, &scope, defaults).map(Arc::new)),
            (Some(body), None) => (self.tool_body(name, body, &scope, publish, defaults), None),
            (None, _) => (None, None),
        };
        let confirm = head.confirm.as_ref().map(|confirm| self.confirm(confirm, &scope));
        let replan = head.replan.as_ref().and_then(|replan| {
            let scope = self.expr_scope(&scope).with("result", Ty::Any);
            self.strings.expr(replan, &scope)
        });
        let (description, description_template) = self.description(head.description.as_ref());
        let requires = head.requires.iter().filter_map(|name| self.types().id(&name.value)).collect();
        Tool {
            description_template,
            returns: head.returns.unwrap_or(Returns::Text),
            trusted: head.trusted,
            confirm,
            requires,
            publish,
            replan,
            return_direct: head.return_direct,
            once: head.once,
            idempotent: head.idempotent,
            timeout: head.timeout.0,
            spool_over: head.spool_over,
            on_collision: head.on_collision.unwrap_or(OnCollision::Throw),
            unfold,
            described_by,
            ..Tool::new(name.value.clone(), description, parameters, body)
        }
    }

    /// The description as written, and as a template where it is one.
    fn description(&mut self, text: Option<&Template>) -> (String, Option<TemplateId>) {
        let Some(text) = text else { return (String::new(), None) };
        let value = &text.0.value;
        let is_template = ["{{", "{%", "{#"].iter().any(|mark| value.contains(mark));
        let scope = self.base_scope();
        let template = if is_template { self.strings.template(&text.0, &scope, ("", "")) } else { None };
        (value.trim_end().to_owned(), template)
    }

    fn confirm(&mut self, confirm: &ConfirmDecl, scope: &Scope) -> Confirm {
        match confirm {
            ConfirmDecl::Ask(text) => Confirm { when: None, ask: self.strings.template(&text.0, scope, ("", "")) },
            ConfirmDecl::Record(record) => {
                let expr_scope = self.expr_scope(scope);
                Confirm {
                    when: record.when.as_ref().and_then(|when| self.strings.expr(when, &expr_scope)),
                    ask: record.ask.as_ref().and_then(|ask| self.strings.template(&ask.0, scope, ("", ""))),
                }
            }
        }
    }

    fn tool_body(
        &mut self,
        name: &Name,
        body: &BodyNode,
        scope: &Scope,
        publish: Option<TypeId>,
        defaults: &Layers<'_>,
    ) -> Option<Arc<dyn Body>> {
        match body.kind.value.as_str() {
            "agentic" => self.agentic(name, body, scope, publish, defaults),
            _ => {
                let mut settings = self.settings(defaults, scope);
                if body.kind.value == "prompt" {
                    settings.references = self.references_of(defaults);
                    self.long_references(&settings);
                }
                let settings = Arc::new(settings);
                let output = Output::new(publish.map_or(OutputKind::None, OutputKind::One));
                self.lower_body(body, scope, output, false, settings)
            }
        }
    }

    fn read_unfold(&mut self, body: &BodyNode) -> UnfoldDecl {
        let mut read = ReadCx::default();
        let unfold = check::unfolding::read_unfold(body, &mut read);
        self.strings.findings.append(&mut read.diagnostics);
        unfold
    }

    /// The parameters of a facade: its own, and the one that chooses a category.
    fn facade_parameters(&mut self, unfold: &UnfoldDecl) -> ObjectDef {
        let object = crate::decl::types::ObjectExpr { fields: unfold.parameters.0.clone(), open: None };
        let mut findings = Vec::new();
        let mut scope = types::Scope { types: self.types(), findings: &mut findings };
        let mut parameters = types::object_def(&mut scope, &object);
        self.strings.findings.append(&mut findings);
        if !unfold.categories.is_empty() {
            let names = unfold.categories.iter().map(|(name, _)| serde_json::Value::from(name.value.clone()));
            let shape =
                Shape::new(ShapeKind::Enum(names.collect())).described("Which tools are revealed; all without it");
            let by = unfold.by.as_ref().map_or(BY, |by| by.value.as_str());
            parameters.fields.insert(by.to_owned(), Field { shape, required: false });
        }
        parameters
    }

    fn unfold(&mut self, body: &BodyNode, decl: UnfoldDecl, scope: &Scope, defaults: &Layers<'_>) -> Option<Unfold> {
        self.tooling.depth += 1;
        let depth = self.tooling.depth;
        let is_sound = check::unfolding::body(self, &decl, body.kind.span, depth);
        let unfold = is_sound.then(|| {
            let select = decl.select.as_ref().and_then(|select| {
                let scope = self.expr_scope(scope);
                self.strings.expr(select, &scope)
            });
            let base = self.base_scope();
            let notes = decl.usage_notes.as_ref();
            let usage_notes = notes.and_then(|notes| self.strings.template(&notes.0, &base, ("", "")));
            let categories = decl.categories.iter();
            let categories =
                categories.map(|(name, tools)| (name.value.clone(), self.uses(tools.iter(), &[], defaults))).collect();
            Unfold {
                tools: self.uses(decl.tools.iter(), &[], defaults),
                by: decl.by.as_ref().map_or(BY, |by| by.value.as_str()).to_owned(),
                categories,
                shared: self.uses(decl.shared.iter(), &[], defaults),
                select,
                usage_notes,
                remove_on_invoke: decl.remove_on_invoke,
                exclusive: decl.exclusive,
                context_tool: decl.context_tool.unwrap_or(decl.usage_notes.is_some()),
            }
        });
        self.tooling.depth -= 1;
        unfold
    }

    fn agentic(
        &mut self,
        name: &Name,
        body: &BodyNode,
        scope: &Scope,
        publish: Option<TypeId>,
        defaults: &Layers<'_>,
    ) -> Option<Arc<dyn Body>> {
        let decl = check::unfolding::agentic(self, body)?;
        let models = match (&decl.llm, defaults.find(|settings| settings.llm.as_ref())) {
            (Some(llm), _) | (None, Some(llm)) => self.models(llm),
            (None, None) => super::settings::DEFAULT_MODELS,
        };
        let system = decl.system.as_ref().and_then(|system| self.strings.template(&system.0, scope, ("", "")));
        let order = match &decl.machine {
            Some(machine) => Order::Machine(machine_of(machine)),
            None if decl.playbook.0.is_empty() => Order::Free,
            None => Order::Playbook(decl.playbook.iter().map(|entry| self.unlock(entry, scope)).collect()),
        };
        let uses = self.offered(&decl.tools, &[], defaults);
        let tools = Some(self.add_offer(Offer { uses, order }));
        let max_turns = decl.max_turns.map_or(super::settings::TURNS, |turns| turns.get());
        let output = publish.map(|id| OutputSchema::native(self.types().name(id), schema_of_type(self.types(), id)));
        let all = self.settings(&Layers::default(), scope);
        let settings = CallSettings {
            models,
            tools,
            max_turns,
            references: self.references_of(defaults),
            guardrail_text: all.guardrail_text,
            guardrails: all.guardrails,
            ..CallSettings::default()
        };
        self.reference_collisions(defaults, &settings);
        self.long_references(&settings);
        let settings = Arc::new(settings);
        Some(Arc::new(Agentic { name: name.value.clone(), system, settings, output }))
    }

    fn unlock(&mut self, entry: &crate::decl::tools::PlaybookEntry, scope: &Scope) -> Unlock {
        let scope = self.planning_scope(scope);
        let when = entry.when.as_ref().and_then(|when| Some((self.strings.expr(when, &scope)?, when.0.value.clone())));
        let needs = entry.needs.as_ref();
        Unlock {
            tool: entry.tool.value.clone(),
            after: entry.after.iter().map(|name| name.value.clone()).collect(),
            when,
            needs: needs.and_then(|needs| types::named(self.types(), needs, &mut self.strings.findings)),
        }
    }

    /// Resolves a list of tools that a prompt offers, and checks what stands side by side in it.
    fn offered(&mut self, list: &[ToolUse], inputs: &[Input], defaults: &Layers<'_>) -> Vec<Use> {
        let mut all = Vec::new();
        let mut elements = Vec::new();
        for tool in list {
            let place = match tool {
                ToolUse::Name(name) | ToolUse::Inline(name, _) => name,
                ToolUse::Derived(derived) => derived.name.as_ref().unwrap_or(&derived.tool),
            };
            let uses = self.uses(std::iter::once(tool), inputs, defaults);
            elements.extend(uses.iter().map(|of| (place.clone(), of.clone())));
            all.extend(uses);
        }
        check::offers::check(self, &elements, inputs);
        all
    }

    /// Resolves a list of tools, whose names were checked.
    fn uses<'d>(
        &mut self,
        tools: impl Iterator<Item = &'d ToolUse>,
        inputs: &[Input],
        defaults: &Layers<'_>,
    ) -> Vec<Use> {
        let mut uses = Vec::new();
        for tool in tools {
            uses.extend(match tool {
                ToolUse::Name(name) => self.named_use(name, inputs),
                ToolUse::Derived(derived) => self.derived_use(derived, inputs),
                ToolUse::Inline(name, decl) => Some(Use::Own(Arc::new(self.tool(name, decl, None, defaults)))),
            });
        }
        uses
    }

    fn named_use(&mut self, name: &Name, inputs: &[Input]) -> Option<Use> {
        let visible = &self.heads.visible;
        let text = name.value.as_str();
        if text.starts_with("builtin:") {
            if let Some(known) = self.tooling.built_in.get(text) {
                return Some(Use::BuiltIn(known.clone()));
            }
            let tools = crate::tool::builtin::group(text)?;
            self.tooling.built_in.insert(text.to_owned(), tools.clone());
            return Some(Use::BuiltIn(tools));
        }
        if let Some((group, tool)) = text.split_once('.') {
            return Some(Use::Group { group: group.to_owned(), only: Some(tool.to_owned()) });
        }
        if visible.tools.contains_key(text) {
            return Some(Use::Tool(text.to_owned()));
        }
        if visible.tool_groups.contains_key(text) {
            return Some(Use::Group { group: text.to_owned(), only: None });
        }
        if let Some(input) = inputs.iter().find(|input| input.name == text) {
            return Some(Use::Objects { input: Some(input.name.clone()), type_id: input.type_id });
        }
        if let Some(type_id) = self.types().id(text) {
            return Some(Use::Objects { input: None, type_id });
        }
        // One agent is one tool, wherever it is listed.
        if let Some(known) = self.tooling.hand_offs.get(text) {
            return Some(Use::Own(known.clone()));
        }
        let tool = Arc::new(handoff::tool(self.agents.get(text)?));
        self.tooling.hand_offs.insert(text.to_owned(), tool.clone());
        Some(Use::Own(tool))
    }

    fn derived_use(&mut self, derived: &DerivedTool, inputs: &[Input]) -> Option<Use> {
        if let Some(name) = &derived.name {
            check::names::check_tool(name, &mut self.strings.findings);
        }
        let of = self.named_use(&derived.tool, inputs)?;
        let scope = self.base_scope();
        let mut template =
            |text: &Option<Template>| text.as_ref().and_then(|text| self.strings.template(&text.0, &scope, ("", "")));
        let (description, note) = (template(&derived.description), template(&derived.note));
        let name = derived.name.as_ref().map(|name| name.value.clone());
        Some(Use::Derived(Box::new(of), Derived { name, description, note }))
    }

    fn add_offer(&mut self, offer: Offer) -> OfferId {
        self.tooling.offers.push(offer);
        OfferId(self.tooling.offers.len() - 1)
    }

    /// Checks and resolves the tools that a body inside a body offers; `scope` is what its strings see.
    pub(crate) fn nested_tools(&mut self, list: &crate::decl::List<ToolUse>, scope: &Scope) -> OfferId {
        let objects = scope.vars.iter().filter_map(|(name, ty)| {
            let type_id = object_type(ty)?;
            Some(Input { name: name.clone(), type_id, list: false, optional: false, named: false })
        });
        let objects: Vec<Input> = objects.collect();
        let names: Vec<&str> = scope.vars.keys().map(String::as_str).collect();
        check::tools::names(self, list.iter(), &names);
        let uses = self.offered(&list.0, &objects, &Layers::default());
        self.add_offer(Offer { uses, order: Order::Free })
    }

    /// Checks and resolves the tools that an action's prompts are offered. The types that they require are preconditions
    /// of the action, but for those that another tool of the list publishes.
    pub(crate) fn action_tools(
        &mut self,
        head: &ActionHead<'_>,
        layers: &Layers<'_>,
        asks_model: bool,
        settings: &mut CallSettings,
    ) -> ToolTypes {
        let mut types = ToolTypes::default();
        let called = head.decl.body.as_ref().filter(|body| body.kind.value == "call").and_then(|body| {
            let tool = body.node.as_map().and_then(|map| map.get("tool")).map_or(&body.node, |entry| &entry.value);
            tool.to_json().as_str().map(str::to_owned)
        });
        types.published.extend(called.and_then(|name| self.tools.get(&name)?.publish));
        let own = head.decl.settings.tools.as_ref();
        let Some(list) = layers.find(|settings| settings.tools.as_ref()) else { return types };
        let inputs: Vec<&str> = head.inputs.iter().map(|input| input.name.as_str()).collect();
        if own.is_some() || asks_model {
            check::tools::names(self, list.iter(), &inputs);
        }
        if !asks_model || list.0.is_empty() {
            return types;
        }
        let uses = self.offered(&list.0, &head.inputs, layers);
        let tools: Vec<Arc<Tool>> = uses.iter().flat_map(|tool| self.known_tools(tool)).collect();
        let direct: BTreeSet<TypeId> = tools.iter().filter_map(|tool| tool.publish).collect();
        let required: BTreeSet<TypeId> = tools.iter().flat_map(|tool| tool.requires.iter().copied()).collect();
        types.required = required.difference(&direct).copied().collect();
        types.published.extend(uses.iter().flat_map(|of| self.published(of, 0)));
        settings.tools = Some(self.add_offer(Offer { uses, order: Order::Free }));
        types
    }

    /// Types of the objects that tools of a list may publish, those behind facades and of objects too.
    fn published(&self, of: &Use, depth: usize) -> BTreeSet<TypeId> {
        let mut tools = self.known_tools(of);
        if let Use::Objects { type_id, .. } = of {
            let kin = std::iter::once(*type_id).chain(self.types().supertypes(*type_id));
            tools.extend(kin.filter_map(|of| self.tooling.of_objects.get(&of)).flatten().cloned());
        }
        let mut found: BTreeSet<TypeId> = tools.iter().filter_map(|tool| tool.publish).collect();
        for unfold in tools.iter().filter_map(|tool| tool.unfold.as_ref()).filter(|_| depth < NESTING_MAX) {
            let inner = unfold.tools.iter().chain(unfold.categories.values().flatten()).chain(&unfold.shared);
            found.extend(inner.flat_map(|of| self.published(of, depth + 1)));
        }
        found
    }

    /// The tools that an element of a list means, as far as they are known before a run; facades stay folded.
    fn known_tools(&self, of: &Use) -> Vec<Arc<Tool>> {
        self.known(of, 0).into_iter().map(|known| known.tool).collect()
    }

    /// The same with the names that they are offered by. `depth` counts groups in groups, which may go round in a circle
    /// that is reported elsewhere.
    pub(crate) fn known(&self, of: &Use, depth: usize) -> Vec<Known> {
        let plain = |tool: &Arc<Tool>| Known { name: tool.name.clone(), tool: Arc::clone(tool), derived: None };
        match of {
            Use::Tool(name) => self.tools.get(name).map(plain).into_iter().collect(),
            Use::Own(tool) => vec![plain(tool)],
            Use::Derived(of, derived) => {
                let derive = |known: Known| Known {
                    name: derived.name.clone().unwrap_or(known.name),
                    derived: Some(derived.clone()),
                    ..known
                };
                self.known(of, depth).into_iter().map(derive).collect()
            }
            Use::Group { group, only } => {
                let groups = self.tooling.groups.get(group).filter(|_| depth < NESTING_MAX);
                let taken = groups.into_iter().flat_map(|group| &group.sources).flat_map(|source| match source {
                    Source::Tools { tools, take } => {
                        let tools = tools.iter().flat_map(|tool| self.known(tool, depth + 1));
                        tools.filter_map(|known| Some(Known { name: take.offered(&known.name)?, ..known })).collect()
                    }
                    Source::Server { .. } => Vec::new(),
                });
                taken.filter(|known| only.as_ref().is_none_or(|only| *only == known.name)).collect()
            }
            Use::BuiltIn(tools) => tools.iter().map(plain).collect(),
            Use::Objects { .. } => Vec::new(),
        }
    }

    /// The names of the tools of objects of a type, those of its supertypes too.
    pub(crate) fn object_tools(&self, of: TypeId) -> impl Iterator<Item = &str> {
        let kin = std::iter::once(of).chain(self.types().supertypes(of));
        kin.filter_map(|of| self.tooling.of_objects.get(&of)).flatten().map(|tool| tool.name.as_str())
    }

    /// A tool that an action calls.
    pub(crate) fn tool_ref(&mut self, name: &Name) -> Option<ToolRef> {
        let visible = &self.heads.visible.tools;
        let Some(decl) = visible.get(name.value.as_str()) else {
            let names: Vec<&str> = visible.keys().copied().collect();
            self.report_unknown("unknown-tool", "tool", name, &names);
            return None;
        };
        if decl.decl.body.as_ref().is_some_and(|body| body.kind.value == "unfold") {
            let message = format!("the tool `{}` only reveals other tools to a model", name.value);
            self.report(
                Diagnostic::error("wrong-type", name.span, message).help("call one of the tools that it reveals"),
            );
            return None;
        }
        let known = self.tools.get(&name.value).cloned();
        let parameters = match &known {
            Some(tool) => tool.parameters.clone(),
            None => {
                // A tool that is lowered later; its mistakes are reported there.
                let mut unheard = Vec::new();
                let mut scope = types::Scope { types: self.types(), findings: &mut unheard };
                let fields = decl.decl.head.parameters.0.clone();
                types::object_def(&mut scope, &crate::decl::types::ObjectExpr { fields, open: None })
            }
        };
        Some(ToolRef {
            name: name.value.clone(),
            parameters,
            needs: known.map(|tool| tool.needs()).unwrap_or_default(),
        })
    }
}

/// The type of the objects that a variable holds.
fn object_type(ty: &Ty) -> Option<TypeId> {
    match ty {
        Ty::Named(id) => Some(*id),
        Ty::Optional(inner) | Ty::List(inner) => object_type(inner),
        _ => None,
    }
}

fn machine_of(decl: &crate::decl::tools::StateMachine) -> Machine {
    let tools = |list: &crate::decl::List<crate::decl::tools::Transition>| {
        let entry =
            |of: &crate::decl::tools::Transition| (of.tool.value.clone(), of.to.as_ref().map(|to| to.value.clone()));
        list.iter().map(entry).collect::<IndexMap<_, _>>()
    };
    Machine {
        start: decl.start.value.clone(),
        states: decl.states.iter().map(|(name, list)| (name.value.clone(), tools(list))).collect(),
        everywhere: tools(&decl.everywhere),
    }
}
