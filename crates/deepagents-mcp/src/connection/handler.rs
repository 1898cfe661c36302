//! Handles requests from a server.
#![allow(deprecated, reason = "roots are on their way out of the protocol, and servers of today ask for them")]

use std::sync::Arc;

use deepagents_core::tool::{ToolContext, ToolError};
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestMethod, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, Implementation,
    ListRootsResult, ProgressNotificationParam, ProtocolVersion, Root,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};

use super::calls::Calls;
use super::elicit;
use super::sampling::{self, NoAnswer};
use crate::config::Sampling;
use crate::options::{McpOptions, SamplingModel};

/// Handles requests from a server: lists the roots, puts elicitation requests to a person, and calls the model for a
/// server that may use it.
#[derive(Debug)]
pub(crate) struct Handler {
    pub(super) server: String,
    config: ClientConfig,
    pub(super) roots: ListRootsResult,
    /// Whether a person can be asked.
    pub(super) elicitation: bool,
    /// The model, if the server may use it.
    sampling: Option<(Sampling, SamplingModel)>,
    calls: Arc<Calls>,
}

impl Handler {
    pub(super) fn new(server: &str, allowed: Sampling, options: &McpOptions, calls: Arc<Calls>) -> Self {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(Default::default());
        if options.elicitation {
            let both = ElicitationCapability::new().with_form(Default::default()).with_url(Default::default());
            capabilities.elicitation = Some(both);
        }
        let may_ask = match allowed {
            Sampling::Off => false,
            Sampling::Ask => options.elicitation,
            Sampling::Allow => true,
        };
        let sampling = options.sampling.clone().filter(|_| may_ask).map(|model| (allowed, model));
        if sampling.is_some() {
            capabilities.sampling = Some(Default::default());
        }
        let name = Implementation::new(&options.client_name, &options.client_version);
        let config = ClientConfig::new(capabilities, name).with_protocol_version(ProtocolVersion::V_2025_11_25);
        let roots = options.root.iter().filter_map(|root| reqwest::Url::from_directory_path(root).ok());
        let roots = roots.map(|url| Root::new(url.as_str().trim_end_matches('/'))).collect();
        Self {
            server: server.to_owned(),
            config,
            roots: ListRootsResult::new(roots),
            elicitation: options.elicitation,
            sampling,
            calls,
        }
    }

    /// Answers a sampling request, if the server may use the model.
    pub(super) async fn sampled(
        &self,
        params: &CreateMessageRequestParams,
        cx: &ToolContext,
    ) -> Result<CreateMessageResult, NoAnswer> {
        match &self.sampling {
            Some((allowed, model)) => sampling::answer(&self.server, *allowed, model, params, cx).await,
            None => Err(ErrorData::method_not_found::<CreateMessageRequestMethod>().into()),
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.roots.clone())
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(call) = self.calls.asked_by(context.extensions.get()) else {
            return Err(ErrorData::method_not_found::<CreateMessageRequestMethod>());
        };
        self.sampled(&params, &call.cx).await.map_err(|problem| match problem {
            NoAnswer::Refused(error) => error,
            NoAnswer::Interrupted(interrupt) => {
                // The call that this belongs to is made again with the answer.
                call.interrupt(interrupt);
                ErrorData::internal_error("a person is asked first", None)
            }
        })
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(call) = self.calls.asked_by(context.extensions.get()).filter(|_| self.elicitation) else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        match elicit::ask(&self.server, &params, &call.cx) {
            Ok(answer) => Ok(answer),
            Err(interrupt @ ToolError::Interrupted(_)) => {
                // The interrupt cancels the call that this belongs to, and the call is made again with the answer.
                call.interrupt(interrupt);
                Ok(ElicitResult::new(ElicitationAction::Cancel))
            }
            Err(_) => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_progress(&self, notice: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.calls.progress(&notice);
    }
}
