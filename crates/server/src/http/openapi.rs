//! The description of all routes, as OpenAPI 3.1: generated from the code, with what all routes have in
//! common added once.

use axum::Router;
use axum::middleware::from_fn;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use windlass::access::Scope;

use super::App;
use super::caller::require;
use super::problem::{Mistake, Problem};
use super::routes::events;

/// What any route may answer, beside its own answers.
const REFUSALS: [(&str, &str); 13] = [
    ("400", "The path or the query cannot be meant"),
    ("401", "No token, or not one that is known"),
    ("403", "The token does not allow this"),
    ("404", "There is no such thing"),
    ("405", "The route is asked with another method; the header `Allow` names those that it has"),
    ("408", "The body did not arrive in time"),
    ("409", "It is in a state that does not allow this"),
    ("413", "The body is too large"),
    ("415", "The body is of another type"),
    ("422", "The body cannot be meant"),
    ("429", "The token has asked too often"),
    ("500", "A fault of the server"),
    ("503", "The store or the server cannot do it now; try again"),
];

/// Puts groups of routes together, each behind what it needs, and describes all of them.
pub(super) fn describe(groups: Vec<(&'static [Scope], OpenApiRouter<App>)>) -> (Router<App>, OpenApi) {
    let info = InfoBuilder::new()
        .title("Windlass")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("A durable task queue and workflow engine"))
        .build();
    let mut all = OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info).build());
    for (needs, group) in groups {
        let (group, mut description) = group.split_for_parts();
        for operation in operations(&mut description) {
            complete(operation, needs);
        }
        let group = match needs {
            [] => group,
            needs => group.route_layer(from_fn(move |request, next| require(needs, request, next))),
        };
        all = all.merge(OpenApiRouter::with_openapi(description).merge_plain(group));
    }
    let (router, mut description) = all.split_for_parts();
    let components = description.components.get_or_insert_default();
    let refusals = [(Problem::name(), Problem::schema()), (Mistake::name(), Mistake::schema())];
    for (name, schema) in refusals.into_iter().chain(events::schemas()) {
        components.schemas.insert(name.into_owned(), schema);
    }
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.security_schemes.insert("token".into(), SecurityScheme::Http(bearer).into());
    (router, description)
}

/// Plain routes beside described ones.
trait MergePlain {
    fn merge_plain(self, routes: Router<App>) -> Self;
}

impl MergePlain for OpenApiRouter<App> {
    fn merge_plain(self, routes: Router<App>) -> Self {
        self.merge(OpenApiRouter::from(routes))
    }
}

fn operations(description: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    description.paths.paths.values_mut().flat_map(|path| {
        [&mut path.get, &mut path.put, &mut path.post, &mut path.delete]
            .into_iter()
            .filter_map(Option::as_mut)
    })
}

/// Adds the refusals that any route may answer with, and what a token needs.
fn complete(operation: &mut Operation, needs: &[Scope]) {
    for (status, description) in REFUSALS {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response = ResponseBuilder::new()
            .description(description)
            .content("application/problem+json", content)
            .build();
        operation.responses.responses.entry(status.into()).or_insert_with(|| response.into());
    }
    // Handlers of different nouns have the same names.
    if let (Some([noun, ..]), Some(verb)) = (operation.tags.as_deref(), &operation.operation_id) {
        operation.operation_id = Some(format!("{noun}_{verb}"));
    }
    // Without tokens, on this machine alone, none is needed.
    let needed = needs.iter().map(|scope| SecurityRequirement::new("token", [scope.word()]));
    operation.security = Some(std::iter::once(SecurityRequirement::default()).chain(needed).collect());
}

/// The description as it is published: the same text for the same routes.
pub(super) fn text(description: &OpenApi) -> String {
    // Sorted: the order in which routes are put together means nothing.
    let value = serde_json::to_value(description).unwrap_or_default();
    serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::description;

    /// Everybody who generates a client from it reads the file.
    #[test]
    fn the_published_description_is_that_of_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/openapi.json");
        let published = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            published == description(),
            "clients/openapi.json is not what the code says; `windlass serve --print-openapi > clients/openapi.json` makes it"
        );
    }
}
