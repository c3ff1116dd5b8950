//! What ties a Rust type to a kind.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The input of a handler: a type that knows its kind.
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct SendEmail {
///     to: String,
/// }
///
/// impl windlass_core::Input for SendEmail {
///     const KIND: &'static str = "email:send";
/// }
/// ```
pub trait Input: Serialize + DeserializeOwned + Send + 'static {
    /// The kind whose payload this is.
    const KIND: &'static str;
}
