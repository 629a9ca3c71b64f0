//! Whether a static type may flow into a declared shape (`set`, `with`).

use super::scope::Ty;
use crate::value::{ObjectDef, Open, Shape, ShapeKind, TypeId, TypeKind, Types};
use serde_json::Value as Json;

/// Objects nested deeper than this are left to run time.
const DEPTH_MAX: usize = 8;

/// Whether a value of the static type can stand where the shape is asked for. What is not known may; what may be absent
/// is the business of the check, which has warned of it.
///
/// # Errors
/// Says what is expected and what is given, as the end of a sentence.
pub fn assignable(ty: &Ty, shape: &Shape, types: &Types) -> Result<(), String> {
    Flow { types }.flows(ty, &Ty::of(types, shape), 0)
}

struct Flow<'a> {
    types: &'a Types,
}

impl Flow<'_> {
    fn flows(&self, from: &Ty, to: &Ty, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Ok(());
        }
        match (from, to) {
            (Ty::Any | Ty::Null, _) | (_, Ty::Any) => Ok(()),
            (Ty::Optional(inner), _) => self.flows(inner, to, depth),
            (_, Ty::Optional(inner)) => self.flows(from, inner, depth),
            (Ty::Union(members), _) => {
                let errors: Vec<String> =
                    members.iter().map_while(|member| self.flows(member, to, depth + 1).err()).collect();
                if errors.len() < members.len() { Ok(()) } else { self.mismatch(from, to) }
            }
            (_, Ty::Union(members)) => {
                let fits = members.iter().any(|member| self.flows(from, member, depth + 1).is_ok());
                if fits { Ok(()) } else { self.mismatch(from, to) }
            }
            (Ty::Bool, Ty::Bool)
            | (Ty::Str, Ty::Str | Ty::Enum(_))
            | (Ty::Int | Ty::Number, Ty::Int | Ty::Number | Ty::Enum(_)) => Ok(()),
            (Ty::Enum(given), Ty::Enum(allowed)) => {
                if given.iter().any(|value| allowed.contains(value)) {
                    Ok(())
                } else {
                    self.mismatch(from, to)
                }
            }
            (Ty::Enum(given), _) if !matches!(to, Ty::Enum(_)) => {
                let fits = given.iter().any(|value| self.flows(&of_json(value), to, depth + 1).is_ok());
                if fits { Ok(()) } else { self.mismatch(from, to) }
            }
            (Ty::List(given), Ty::List(wanted)) => {
                self.flows(given, wanted, depth + 1).map_err(|error| format!("in the list: {error}"))
            }
            (Ty::Tuple(parts), Ty::List(wanted)) => {
                parts.iter().try_for_each(|part| self.flows(part, wanted, depth + 1))
            }
            (Ty::Map(given), Ty::Map(wanted)) => self.flows(given, wanted, depth + 1),
            (Ty::Named(given), Ty::Named(wanted)) => self.named(*given, *wanted, depth),
            (Ty::Record(fields), Ty::Map(wanted)) => {
                fields.values().try_for_each(|field| self.flows(field, wanted, depth + 1))
            }
            (Ty::Record(fields), Ty::Named(_) | Ty::Object(_)) => match self.object(to) {
                Some(object) => {
                    let given: Vec<(&str, Ty)> = fields.iter().map(|(name, ty)| (name.as_str(), ty.clone())).collect();
                    self.fields(&given, object, to, depth)
                }
                None => Ok(()),
            },
            (Ty::Named(_) | Ty::Object(_), Ty::Named(_) | Ty::Object(_)) => self.structure(from, to, depth),
            (Ty::Map(_), Ty::Named(_) | Ty::Object(_)) | (Ty::Named(_) | Ty::Object(_), Ty::Map(_) | Ty::Record(_)) => {
                Ok(())
            }
            (Ty::Map(_), Ty::Record(_)) | (Ty::Record(_), Ty::Record(_)) => Ok(()),
            _ => self.mismatch(from, to),
        }
    }

    fn mismatch(&self, from: &Ty, to: &Ty) -> Result<(), String> {
        let shown = |ty: &Ty| match ty {
            Ty::Enum(values) if values.len() == 1 => format!("`{}`", values[0]),
            Ty::Enum(_) => ty.describe(self.types),
            _ => format!("`{}`", ty.describe(self.types).replace('`', "")),
        };
        Err(format!("expected {}, and this is {}", shown(to), shown(from)))
    }

    /// An object of another declared type: a subtype fits, a supertype may, others when their fields do.
    fn named(&self, given: TypeId, wanted: TypeId, depth: usize) -> Result<(), String> {
        if self.types.is_subtype(given, wanted) || self.types.is_subtype(wanted, given) {
            return Ok(());
        }
        self.structure(&Ty::Named(given), &Ty::Named(wanted), depth)
    }

    fn structure(&self, from: &Ty, to: &Ty, depth: usize) -> Result<(), String> {
        let (Some(given), Some(wanted)) = (self.object(from), self.object(to)) else { return Ok(()) };
        let fields: Vec<(&str, Ty)> =
            given.fields.iter().map(|(name, field)| (name.as_str(), Ty::of(self.types, &field.shape))).collect();
        if given.open != Open::Closed {
            return Ok(());
        }
        self.fields(&fields, wanted, to, depth).or_else(|_| self.mismatch(from, to))
    }

    fn fields(&self, given: &[(&str, Ty)], wanted: &ObjectDef, to: &Ty, depth: usize) -> Result<(), String> {
        let what = to.describe(self.types).replace('`', "");
        for (name, ty) in given {
            match (wanted.fields.get(*name), &wanted.open) {
                (Some(field), _) => self
                    .flows(ty, &Ty::of(self.types, &field.shape), depth + 1)
                    .map_err(|error| format!("in `{name}`: {error}"))?,
                (None, Open::Closed) => return Err(format!("`{what}` has no field `{name}`")),
                (None, Open::Any | Open::Of(_)) => {}
            }
        }
        let missing = wanted
            .fields
            .iter()
            .find(|(name, field)| field.required && !given.iter().any(|(given, _)| given == &name.as_str()));
        match missing {
            Some((name, _)) => Err(format!("`{what}` wants a field `{name}`")),
            None => Ok(()),
        }
    }

    /// The fields of an object type, when it stands for one only.
    fn object<'t>(&'t self, ty: &'t Ty) -> Option<&'t ObjectDef> {
        match ty {
            Ty::Named(id) if !self.types.is_polymorphic(*id) => match &self.types.get(*id).kind {
                TypeKind::Object(object) => Some(object),
                _ => None,
            },
            Ty::Object(shape) => match &shape.kind {
                ShapeKind::Object(object) => Some(object),
                _ => None,
            },
            _ => None,
        }
    }
}

fn of_json(value: &Json) -> Ty {
    match value {
        Json::Null => Ty::Null,
        Json::Bool(_) => Ty::Bool,
        Json::Number(number) if number.is_f64() => Ty::Number,
        Json::Number(_) => Ty::Int,
        Json::String(_) => Ty::Str,
        Json::Array(_) => Ty::List(Box::new(Ty::Any)),
        Json::Object(_) => Ty::Map(Box::new(Ty::Any)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check_template;
    use super::super::check::tests::{scope, types};
    use super::super::files::Files;
    use super::super::scope::Position;
    use super::*;

    #[test]
    fn data_flows_where_its_type_fits() {
        let types = types();
        let mut scope = scope(&types);
        scope.position = Position::Data;
        let shape = |kind: &str| match kind {
            "string" => Shape::new(ShapeKind::String),
            "integer" => Shape::new(ShapeKind::Integer),
            "boolean" => Shape::new(ShapeKind::Boolean),
            "strings" => Shape::list(Shape::new(ShapeKind::String)),
            name => Shape::named(types.id(name).unwrap()),
        };
        let flow = |text: &str, kind: &str| {
            let ty = check_template(&Files::new(), &types, &scope, text).ty.unwrap_or(Ty::Str);
            assignable(&ty, &shape(kind), &types).err().unwrap_or_default()
        };
        for (text, kind) in [
            ("{{ order.days }}", "integer"),
            ("{{ order.id }}", "string"),
            ("{{ order.tags }}", "strings"),
            ("{{ news.stories[0] }}", "Story"),
            ("{{ {'title': 'a', 'score': 1} }}", "Story"),
            ("{{ star_person.sign }}", "string"),
            ("{{ order.days > 3 }}", "boolean"),
            ("{{ free.x }}", "Story"),
            ("{{ animal }}", "Frog"),
            ("{{ last('Frog') }}", "Animal"),
            ("{{ order.days | default(none) }}", "integer"),
        ] {
            assert_eq!(flow(text, kind), "", "{text}");
        }
        assert_eq!(flow("{{ order.days }} days", "integer"), "expected `integer`, and this is `string`");
        assert_eq!(flow("{{ order.id }}", "strings"), "expected `list<string>`, and this is `string`");
        assert_eq!(flow("{{ news.stories }}", "strings"), "in the list: expected `string`, and this is `Story`");
        assert_eq!(flow("{{ order }}", "Story"), "expected `Story`, and this is `Order`");
        assert_eq!(flow("{{ {'title': 'a'} }}", "Story"), "`Story` wants a field `score`");
        assert_eq!(flow("{{ {'titel': 'a'} }}", "Story"), "`Story` has no field `titel`");
        assert_eq!(
            flow("{{ {'title': 1, 'score': 1} }}", "Story"),
            "in `title`: expected `string`, and this is `integer`"
        );
        assert_eq!(flow("{{ order.tags }}", "boolean"), "expected `boolean`, and this is `list<string>`");
    }
}
