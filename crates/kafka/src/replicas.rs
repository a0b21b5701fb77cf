//! Manual replica assignments. A standalone server accepts only an assignment that names its node once for
//! each partition. Others are refused with the reason that Kafka gives. In a cluster the controller knows the
//! nodes.

use std::collections::BTreeSet;

use tailrace_kafka_wire::ErrorCode;

use crate::commands::Refusal;

/// Checks the replicas of one partition.
pub(crate) fn check_replicas(replicas: &[i32], node: i32) -> Result<(), Refusal> {
    let refuse = |message: String| {
        Err(Refusal::new(
            ErrorCode::InvalidReplicaAssignment,
            format!("The manual partition assignment includes {message}."),
        ))
    };
    if replicas.is_empty() {
        return refuse("an empty replica list".to_owned());
    }
    let mut seen = BTreeSet::new();
    for replica in replicas {
        if !seen.insert(replica) {
            return refuse(format!("the broker {replica} more than once"));
        }
        if *replica != node {
            return refuse(format!(
                "broker {replica}, but no such broker is registered: the only one is {node}"
            ));
        }
    }
    Ok(())
}

/// Checks the assignment of a whole topic: partitions 0 to n-1, each once. Returns n. `alone` is set in a
/// standalone server.
pub(crate) fn check_assignment<'a>(
    assignment: impl Iterator<Item = (i32, &'a [i32])>,
    alone: Option<i32>,
) -> Result<i32, Refusal> {
    let refuse = |message: String| Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
    let mut partitions = BTreeSet::new();
    for (partition, replicas) in assignment {
        if !partitions.insert(partition) {
            return refuse(format!("Found multiple manual partition assignments for partition {partition}"));
        }
        if let Some(node) = alone {
            check_replicas(replicas, node)?;
        }
    }
    // Too many partitions are refused because of their count, or later.
    let count = i32::try_from(partitions.len()).unwrap_or(i32::MAX);
    if partitions.iter().copied().ne(0..count) {
        return refuse("partitions should be a consecutive 0-based integer sequence".to_owned());
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(assignment: &[(i32, &[i32])]) -> Result<i32, ErrorCode> {
        check_assignment(assignment.iter().map(|&(p, replicas)| (p, replicas)), Some(1)).map_err(|r| r.code)
    }

    #[test]
    fn only_this_node_once_for_each_partition_from_zero() {
        assert_eq!(check(&[(1, &[1]), (0, &[1])]), Ok(2));
        let refused = Err(ErrorCode::InvalidReplicaAssignment);
        let cases: [&[(i32, &[i32])]; 6] = [
            &[(0, &[])],
            &[(0, &[2])],
            &[(0, &[1, 1])],
            &[(0, &[1]), (0, &[1])],
            &[(1, &[1])],
            &[(-1, &[1]), (0, &[1])],
        ];
        for case in cases {
            assert_eq!(check(case), refused, "{case:?}");
        }
    }
}
