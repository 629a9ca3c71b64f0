//! States: what entering one means for planning, and what its actions see (language.md 7).

use crate::action::lower::Extra;
use crate::decl::Data as WrittenData;
use crate::program::{Action, Input};
use crate::prompt::{Checked, Scope, Ty, assignable};
use crate::source::{Entry, Node, NodeKind, Spanned, Style, Text};
use crate::value::{Output, OutputKind, Shape, ShapeKind, TypeId, TypeKind, Types};

/// Whether an action that gives an output enters a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entering {
    /// No state is among what it may give.
    Never,
    /// Whatever comes is a state, and something comes.
    Surely,
    /// Whatever comes is a state; perhaps nothing comes.
    WhenItComes,
    /// What comes may be a state, or something else.
    Perhaps,
}

/// Whether an action with this output enters a state.
pub(crate) fn entering(types: &Types, output: &Output) -> Entering {
    let concrete = output.types().iter().flat_map(|id| {
        let concrete = types.concrete(*id);
        if concrete.is_empty() { vec![*id] } else { concrete }
    });
    let (mut states, mut others) = (0, 0);
    concrete.for_each(|id| if types.is_state(id) { states += 1 } else { others += 1 });
    match (&output.kind, states, others) {
        (_, 0, _) => Entering::Never,
        (OutputKind::One(_) | OutputKind::List(_), _, 0) => Entering::Surely,
        (_, _, 0) => Entering::WhenItComes,
        _ => Entering::Perhaps,
    }
}

/// The states that are no special case of another one; none where no action leads to a state or belongs to one.
pub(crate) fn roots(types: &Types, actions: &[Action]) -> Vec<TypeId> {
    let leads = |action: &Action| action.state.is_some() || entering(types, &action.output) != Entering::Never;
    if !actions.iter().any(leads) {
        return Vec::new();
    }
    let is_root =
        |id: &TypeId| types.is_state(*id) && types.supertypes(*id).into_iter().all(|sup| !types.is_state(sup));
    types.iter().map(|(id, _)| id).filter(is_root).collect()
}

/// The variables that a state's actions see: `self`, and its fields where no input has the name.
pub(crate) fn add_variables(types: &Types, state: TypeId, scope: &mut Scope) {
    scope.vars.insert("self".to_owned(), Ty::named(types, state));
    for (name, field) in types.get(state).fields().into_iter().flatten() {
        let ty = Ty::of(types, &field.shape);
        let ty = if field.required { ty } else { ty.optional() };
        scope.vars.entry(name.clone()).or_insert(ty);
    }
}

/// Whether a checked expr uses `self` or a field of the state, where no input has the name.
pub(crate) fn uses(types: &Types, state: TypeId, checked: &Checked, inputs: &[Input]) -> bool {
    let fields = types.get(state).fields();
    let is_field = |name: &str| name == "self" || fields.is_some_and(|fields| fields.contains_key(name));
    let is_input = |name: &str| inputs.iter().any(|input| input.name == name);
    checked.mentions.iter().chain(&checked.guarded).any(|name| is_field(name) && !is_input(name))
}

/// The data of a state with the fields that are left out, where a variable has the same name and type.
pub(crate) fn filled(
    types: &Types,
    data: &WrittenData,
    expected: Option<&Shape>,
    scope: &Scope,
    extra: Extra<'_>,
) -> Option<WrittenData> {
    let NodeKind::Map(map) = &data.0.kind else { return None };
    let id = state_of(types, expected?, &data.0)?;
    let mut filled = map.clone();
    let before = filled.len();
    for (name, field) in types.get(id).fields()?.iter().filter(|(name, _)| !map.contains(name)) {
        let own = extra.iter().find(|(variable, _)| variable == name).map(|(_, ty)| ty);
        let Some(ty) = own.or_else(|| scope.vars.get(name)) else { continue };
        let (ty, may_be_absent) = match ty {
            Ty::Optional(inner) => (&**inner, true),
            ty => (ty, false),
        };
        if (may_be_absent && field.required) || *ty == Ty::Any || assignable(ty, &field.shape, types).is_err() {
            continue;
        }
        let text =
            if may_be_absent { format!("{{{{ {name} | default(none) }}}}") } else { format!("{{{{ {name} }}}}") };
        let text = Text::with_segments(text, data.0.span, Style::Double, Vec::new());
        let value = Node::new(NodeKind::Text(text), data.0.span);
        filled.entries.push(Entry { key: Spanned { value: name.clone(), span: data.0.span }, value });
    }
    (filled.len() > before).then(|| WrittenData(Node::new(NodeKind::Map(filled), data.0.span)))
}

/// The concrete state that a written map stands for.
fn state_of(types: &Types, shape: &Shape, node: &Node) -> Option<TypeId> {
    match &shape.kind {
        ShapeKind::Named(id) if types.is_polymorphic(*id) => {
            let named = node.as_map()?.get(&types.get(*id).discriminator)?.value.as_str()?;
            types.id(named).filter(|sub| types.is_subtype(*sub, *id) && types.is_state(*sub))
        }
        ShapeKind::Named(id) => {
            let is_object = matches!(types.get(*id).kind, TypeKind::Object(_));
            (is_object && types.is_state(*id)).then_some(*id)
        }
        ShapeKind::OneOf(shapes) => {
            let mut objects = shapes.iter().filter(|shape| shape.kind != ShapeKind::Null);
            match (objects.next(), objects.next()) {
                (Some(only), None) => state_of(types, only, node),
                _ => None,
            }
        }
        _ => None,
    }
}
