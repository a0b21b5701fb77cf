//! Topics and partitions, as given to a reset.

/// A topic, or some of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopicChoice {
    pub(super) topic: String,
    /// Empty for all.
    pub(super) partitions: Vec<i32>,
}

/// Parses `orders` or `orders:0,3`.
pub(super) fn parse_choice(text: &str) -> Result<TopicChoice, String> {
    let (topic, partitions) = match text.split_once(':') {
        None => (text, Vec::new()),
        Some((topic, numbers)) => {
            let number = |text: &str| text.trim().parse().ok().filter(|&number: &i32| number >= 0);
            let numbers: Option<Vec<i32>> = numbers.split(',').map(number).collect();
            (topic, numbers.ok_or("expected TOPIC, or TOPIC:N,N with the numbers of partitions")?)
        }
    };
    if topic.is_empty() {
        return Err("expected TOPIC, or TOPIC:N,N".to_owned());
    }
    Ok(TopicChoice { topic: topic.to_owned(), partitions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_chosen_whole_or_in_part() {
        let choice = |topic: &str, partitions: &[i32]| TopicChoice {
            topic: topic.to_owned(),
            partitions: partitions.to_vec(),
        };
        assert_eq!(parse_choice("orders"), Ok(choice("orders", &[])));
        assert_eq!(parse_choice("orders:0,3"), Ok(choice("orders", &[0, 3])));
        for wrong in ["", ":0", "orders:", "orders:x", "orders:-1", "orders:0,,1"] {
            assert!(parse_choice(wrong).is_err(), "{wrong}");
        }
    }
}
