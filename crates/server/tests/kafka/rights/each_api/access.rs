//! Users, rules and quotas.

use super::*;

#[tokio::test]
async fn users_rules_and_quotas() {
    check_all(&cases()).await;
}

pub(super) fn cases() -> Vec<Case> {
    let alter: Right<'static> = (Alter, Cluster, CLUSTER_NAME);
    let describe: Right<'static> = (Describe, Cluster, CLUSTER_NAME);
    vec![
        case!("DescribeAcls", [describe], 3, |_id| all_rules(), |a| {
            assert!(a.error_code == 0 || a.resources.is_empty(), "a refusal names rules");
            a.error_code
        }),
        case!("CreateAcls", [alter], 3, |_id| rule(), |a| a.results[0].error_code),
        case!("DeleteAcls", [alter], 3, |_id| no_rule(), |a| {
            assert!(a.filter_results[0].matching_acls.is_empty());
            a.filter_results[0].error_code
        }),
        case!(
            "DescribeClientQuotas",
            [(DescribeConfigs, Cluster, CLUSTER_NAME)],
            1,
            |_id| DescribeClientQuotasRequest::default(),
            |a| a.error_code
        ),
        case!("AlterClientQuotas", [(AlterConfigs, Cluster, CLUSTER_NAME)], 1, |_id| quota(), |a| a.entries
            [0]
        .error_code),
        case!(
            "DescribeUserScramCredentials",
            [describe],
            0,
            |_id| DescribeUserScramCredentialsRequest { users: None, ..Default::default() },
            |a| {
                assert!(a.error_code == 0 || a.results.is_empty(), "a refusal names users");
                a.error_code
            }
        ),
        case!("AlterUserScramCredentials", [alter], 0, |_id| credential(), |a| a.results[0].error_code),
    ]
}

const ANY: i8 = 1;

fn all_rules() -> DescribeAclsRequest {
    DescribeAclsRequest {
        resource_type_filter: ANY,
        pattern_type_filter: ANY,
        operation: ANY,
        permission_type: ANY,
        ..Default::default()
    }
}

/// READ of a topic, for bob.
fn rule() -> CreateAclsRequest {
    CreateAclsRequest {
        creations: vec![create_acls_request::AclCreation {
            resource_type: 2,
            resource_name: "t".to_owned(),
            resource_pattern_type: 3,
            principal: "User:bob".to_owned(),
            host: "*".to_owned(),
            operation: 3,
            permission_type: 3,
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Rules of a user who has none.
fn no_rule() -> DeleteAclsRequest {
    DeleteAclsRequest {
        filters: vec![delete_acls_request::DeleteAclsFilter {
            resource_type_filter: ANY,
            pattern_type_filter: ANY,
            principal_filter: Some("User:nobody".to_owned()),
            operation: ANY,
            permission_type: ANY,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn quota() -> AlterClientQuotasRequest {
    AlterClientQuotasRequest {
        entries: vec![alter_client_quotas_request::EntryData {
            entity: vec![alter_client_quotas_request::EntityData {
                entity_type: "user".to_owned(),
                entity_name: Some("bob".to_owned()),
                ..Default::default()
            }],
            ops: vec![alter_client_quotas_request::OpData {
                key: "producer_byte_rate".to_owned(),
                value: 1e6,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn credential() -> AlterUserScramCredentialsRequest {
    AlterUserScramCredentialsRequest {
        upsertions: vec![alter_user_scram_credentials_request::ScramCredentialUpsertion {
            name: "bob".to_owned(),
            mechanism: 1,
            iterations: 4096,
            salt: vec![1; 16].into(),
            salted_password: vec![2; 32].into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}
