//! DescribeAcls (29), CreateAcls (30) and DeleteAcls (31). There are no permissions for Kafka clients yet.
//! The answer is that of a Kafka without an authorizer, which clients and tools recognize.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::create_acls_response::AclCreationResult;
use tailrace_kafka_wire::messages::delete_acls_response::DeleteAclsFilterResult;
use tailrace_kafka_wire::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
    DescribeAclsResponse,
};

use crate::commands::ITEMS_MAX;
use crate::context::Context;

const REASON: &str = "No Authorizer is configured: tailrace has no permissions for Kafka clients yet.";

const CODE: ErrorCode = ErrorCode::SecurityDisabled;

pub(crate) async fn describe(_context: Arc<Context>, _request: DescribeAclsRequest) -> DescribeAclsResponse {
    DescribeAclsResponse {
        error_code: CODE.code(),
        error_message: Some(REASON.to_owned()),
        ..Default::default()
    }
}

pub(crate) async fn create(_context: Arc<Context>, request: CreateAclsRequest) -> CreateAclsResponse {
    let refused = |_| AclCreationResult {
        error_code: CODE.code(),
        error_message: Some(REASON.to_owned()),
        ..Default::default()
    };
    // Each result is longer than its entry in the request, so the number of entries is limited.
    let results = request.creations.iter().take(ITEMS_MAX).map(refused).collect();
    CreateAclsResponse { results, ..Default::default() }
}

pub(crate) async fn delete(_context: Arc<Context>, request: DeleteAclsRequest) -> DeleteAclsResponse {
    let refused = |_| DeleteAclsFilterResult {
        error_code: CODE.code(),
        error_message: Some(REASON.to_owned()),
        ..Default::default()
    };
    let filter_results = request.filters.iter().take(ITEMS_MAX).map(refused).collect();
    DeleteAclsResponse { filter_results, ..Default::default() }
}
