//! Encodes namespaces as bytes that preserve their order and nesting.

/// Encodes a namespace: each label is followed by a zero byte, which labels cannot contain.
pub(crate) fn encode(namespace: &[String]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(namespace.iter().map(|label| label.len() + 1).sum());
    for label in namespace {
        bytes.extend_from_slice(label.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// Decodes a namespace.
pub(crate) fn decode(bytes: &[u8]) -> Vec<String> {
    let labels = bytes.strip_suffix(&[0]).unwrap_or(bytes).split(|byte| *byte == 0);
    labels.map(|label| String::from_utf8_lossy(label).into_owned()).collect()
}

/// Returns the first key after all that begin with `prefix`, or `None` if there is no such key.
pub(crate) fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_namespaces_sort_and_nest_like_the_originals() {
        let ns = |labels: &[&str]| labels.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        let sorted = [ns(&["a"]), ns(&["a", "b"]), ns(&["a", "b", "c"]), ns(&["a", "ba"]), ns(&["a!"]), ns(&["ab"])];
        assert!(sorted.is_sorted());
        assert!(sorted.iter().map(|n| encode(n)).is_sorted());
        for namespace in &sorted {
            assert_eq!(decode(&encode(namespace)), *namespace);
            for other in &sorted {
                let nested = encode(other).starts_with(&encode(namespace));
                assert_eq!(nested, other.starts_with(namespace), "{namespace:?} {other:?}");
            }
        }
    }

    #[test]
    fn keys_with_a_prefix_sort_below_its_upper_bound() {
        assert_eq!(after(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after(&[1, 255]), Some(vec![2]));
        assert_eq!(after(&[255]), None);
        assert_eq!(after(b""), None);
    }
}
