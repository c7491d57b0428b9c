//! The rows of a figure's table, of which a long run has thousands.

use serde::{Serialize, Serializer};
use serde_json::Value;

/// Each row as JSON text, which takes a quarter of the memory of its values.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    text: String,
    ends: Vec<usize>,
}

impl Rows {
    pub fn push(&mut self, row: Vec<Value>) {
        self.text.push_str(&Value::Array(row).to_string());
        self.ends.push(self.text.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// `row` must be a valid index.
    pub fn get(&self, row: usize) -> Vec<Value> {
        let begin = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        serde_json::from_str(&self.text[begin..self.ends[row]]).expect("the text is a JSON list")
    }

    pub fn iter(&self) -> impl Iterator<Item = Vec<Value>> {
        (0..self.len()).map(|row| self.get(row))
    }
}

impl From<Vec<Vec<Value>>> for Rows {
    fn from(all: Vec<Vec<Value>>) -> Self {
        let mut rows = Self::default();
        all.into_iter().for_each(|row| rows.push(row));
        rows
    }
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn packed_rows_are_read_back_unchanged() {
        let all = vec![vec![json!("],\"x"), json!(0.1 + 0.2), json!(u64::MAX)], vec![], vec![json!(null), json!(-0.0)]];
        let rows = Rows::from(all.clone());
        assert_eq!(rows.iter().collect::<Vec<_>>(), all);
        assert_eq!(serde_json::to_string(&rows).unwrap(), serde_json::to_string(&all).unwrap());
        assert_eq!((rows.len(), rows.get(2)[1].as_f64()), (3, Some(-0.0)));
    }
}
