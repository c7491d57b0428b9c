//! Groups values by key, without ordering or hashing; for few keys.

/// Each key once, in order of first occurrence, with its values in their order.
pub fn grouped<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn groups_keep_the_order_of_keys_and_values() {
        let pairs = [("b", 1), ("a", 2), ("b", 3)];
        assert_eq!(grouped(pairs), [("b", vec![1, 3]), ("a", vec![2])]);
    }
}
