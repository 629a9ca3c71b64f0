//! `auto: cheapest|best|fastest`: a model of the catalog that can do what a call needs.
//!
//! Nothing is measured here and nothing is guessed from names. `best` takes the highest `ability` and `fastest` the highest
//! `tokens_per_second` that the catalog has; where it has none, the price speaks: who costs more is taken for more able,
//! who costs less for quicker. Equal ones stand in the catalog's order, so that the same catalog gives the same choice.

use super::catalog::{Catalog, CatalogEntry, Feature};
use super::request::{Part, Request};

/// What decides among several models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auto {
    /// The lowest price.
    Cheapest,
    /// The highest ability.
    Best,
    /// The quickest answer.
    Fastest,
}

impl Auto {
    /// The word that authors write.
    pub fn word(self) -> &'static str {
        match self {
            Auto::Cheapest => "cheapest",
            Auto::Best => "best",
            Auto::Fastest => "fastest",
        }
    }
}

/// How many times as many tokens are sent as received, for one price out of two.
const SENT_PER_RECEIVED: f64 = 3.0;

/// The features that a request needs: tools, pictures, native structured output, thinking.
pub fn needs(request: &Request) -> Vec<Feature> {
    let is_image = |part: &Part| matches!(part, Part::Image { .. });
    let pictures = request.messages.iter().any(|message| message.parts.iter().any(is_image));
    let thinks = request.options.thinking.as_ref().is_some_and(|thinking| thinking.budget().is_some());
    let needed = [
        (!request.tools.is_empty(), Feature::Tools),
        (pictures, Feature::Images),
        (request.output.is_some(), Feature::JsonSchema),
        (thinks, Feature::Thinking),
    ];
    needed.into_iter().filter_map(|(needed, feature)| needed.then_some(feature)).collect()
}

/// Returns the model (`provider/id`) among those of the providers that `can_ask` names; `None` when there is none that
/// has a price and every feature of `needs`.
pub fn choose(catalog: &Catalog, auto: Auto, needs: &[Feature], can_ask: impl Fn(&str) -> bool) -> Option<String> {
    let able = |model: &str, entry: &CatalogEntry| {
        let has = |feature: Feature| entry.has(feature) == Some(true);
        let provider = model.split_once('/').is_some_and(|(provider, _)| can_ask(provider));
        provider && !has(Feature::Embedding) && needs.iter().all(|feature| has(*feature))
    };
    let mut best: Option<(&str, f64)> = None;
    for (model, entry) in catalog.models().filter(|(model, entry)| able(model, entry)) {
        let Some(worth) = worth(auto, entry) else { continue };
        if best.is_none_or(|(_, other)| worth > other) {
            best = Some((model, worth));
        }
    }
    best.map(|(model, _)| model.to_owned())
}

/// The greater the better. What the catalog says itself stands above all that is taken from prices.
fn worth(auto: Auto, entry: &CatalogEntry) -> Option<f64> {
    /// Above every price.
    const SAID: f64 = 1e9;
    let price = entry.input_usd_per_mtok? * SENT_PER_RECEIVED + entry.output_usd_per_mtok?;
    Some(match (auto, entry.ability, entry.tokens_per_second) {
        (Auto::Best, Some(ability), _) => SAID + ability,
        (Auto::Fastest, _, Some(speed)) => SAID + speed,
        (Auto::Best, None, _) => price,
        (Auto::Cheapest, ..) | (Auto::Fastest, _, None) => -price,
    })
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;

    use super::*;
    use crate::llm::{ImageSource, Message, Role};

    fn entry(price: f64, supports: &[Feature]) -> CatalogEntry {
        CatalogEntry {
            input_usd_per_mtok: Some(price),
            output_usd_per_mtok: Some(price),
            supports: Some(supports.iter().copied().collect()),
            ..CatalogEntry::default()
        }
    }

    #[test]
    fn the_choice_is_among_those_that_can_and_may_be_asked() {
        let all = [Feature::Tools, Feature::JsonSchema, Feature::Images];
        let mut quick = entry(5.0, &all);
        quick.tokens_per_second = Some(300.0);
        let own = IndexMap::from([
            ("a/small".to_owned(), entry(1.0, &[Feature::JsonSchema])),
            ("a/large".to_owned(), entry(9.0, &all)),
            ("a/quick".to_owned(), quick),
            ("a/vectors".to_owned(), entry(0.01, &[Feature::Embedding, Feature::JsonSchema])),
            ("b/free".to_owned(), entry(0.0, &all)),
        ]);
        let catalog = Catalog::new(own);
        let chosen = |auto, needs: &[Feature]| choose(&catalog, auto, needs, |provider| provider == "a");
        assert_eq!(chosen(Auto::Cheapest, &[Feature::JsonSchema]).as_deref(), Some("a/small"));
        assert_eq!(chosen(Auto::Cheapest, &[Feature::Tools]).as_deref(), Some("a/quick"));
        assert_eq!(chosen(Auto::Best, &[]).as_deref(), Some("a/large"));
        assert_eq!(chosen(Auto::Fastest, &[]).as_deref(), Some("a/quick"));
        assert_eq!(chosen(Auto::Best, &[Feature::Thinking]), None);
        assert_eq!(choose(&catalog, Auto::Best, &[], |_| false), None);
    }

    #[test]
    fn a_request_says_itself_what_it_needs() {
        let image = Part::Image { mime: "image/png".into(), source: ImageSource::Data(String::new()) };
        let message = Message { role: Role::User, parts: vec![image] };
        let mut request = Request { messages: vec![message], ..Request::default() };
        assert_eq!(needs(&request), [Feature::Images]);
        request.options.thinking = Some(crate::llm::Thinking::Off);
        assert_eq!(needs(&request), [Feature::Images]);
    }
}
