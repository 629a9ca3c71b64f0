//! Embeddings: texts as vectors.

use serde_json::Value;

use super::assembly::answered_without;
use super::error::LlmError;
use super::http::Http;

/// The vectors of some texts, in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Embeddings {
    /// One vector for each text; all have the same length.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens sent, where the provider says it.
    pub input_tokens: u64,
}

impl Embeddings {
    /// Reads `wanted` vectors: `list` leads to their list, `vector` from an element to its numbers.
    pub(crate) fn read(
        http: &Http,
        body: &Value,
        list: &str,
        vector: &str,
        tokens: Option<&str>,
        wanted: usize,
    ) -> Result<Embeddings, LlmError> {
        let numbers = |element: &Value| -> Option<Vec<f32>> {
            let numbers = element.pointer(vector)?.as_array()?;
            numbers.iter().map(|number| number.as_f64().map(|number| number as f32)).collect()
        };
        let elements = body.pointer(list).and_then(Value::as_array);
        let vectors: Option<Vec<Vec<f32>>> = elements.and_then(|list| list.iter().map(numbers).collect());
        let same_length = |vectors: &Vec<Vec<f32>>| {
            vectors.len() == wanted
                && vectors.iter().all(|vector| !vector.is_empty() && vector.len() == vectors[0].len())
        };
        let Some(vectors) = vectors.filter(same_length) else {
            return Err(answered_without(http, "embeddings of all texts", body));
        };
        let input_tokens = tokens.and_then(|place| body.pointer(place)?.as_u64()).unwrap_or(0);
        Ok(Embeddings { vectors, input_tokens })
    }
}
