//! Turns the table of verbs into code. Read `mod.rs` first; this file has no verb in it.
//!
//! For each line of the table it makes a trait method, a struct that holds the arguments, its
//! [`Verb`](super::Verb), a variant of [`Call`](super::Call), and the forwarding in
//! [`Wrapped`](crate::Wrapped), [`Wrap`](super::Wrap) and the remote store.

macro_rules! verbs {
    ($(
        $(#[$trait_doc:meta])*
        trait $Trait:ident {
            $(
                $(#[$doc:meta])*
                $mode:ident $Verb:ident = $name:ident ( $($(#[$attr:meta])* $arg:ident : $ty:ty),* $(,)? ) -> $answer:ty;
            )*
        }
    )*) => {
        $(
            $(#[$trait_doc])*
            #[async_trait]
            pub trait $Trait: Debug + Send + Sync + 'static {
                $( $(#[$doc])* async fn $name(&self, $($arg: $ty),*) -> Result<$answer>; )*
            }

            $(
                #[doc = concat!("[`", stringify!($Trait), "::", stringify!($name), "`] as a value.")]
                #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
                #[serde(deny_unknown_fields)]
                #[allow(missing_docs, reason = "the method says what each argument means")]
                pub struct $Verb { $($(#[$attr])* pub $arg: $ty),* }

                impl Verb for $Verb {
                    type Answer = $answer;
                    const NAME: &'static str = stringify!($name);
                    const WRITES: bool = verbs!(@writes $mode);

                    async fn run(self, store: &dyn Store) -> Result<$answer> {
                        store.$name($(self.$arg),*).await
                    }
                }

                impl From<$Verb> for Call {
                    fn from(verb: $Verb) -> Self {
                        Self::$Verb(verb)
                    }
                }
            )*

            #[async_trait]
            impl<W: Wrap> $Trait for Wrapped<W> {
                $( async fn $name(&self, $($arg: $ty),*) -> Result<$answer> {
                    self.wrap.call(stringify!($name), self.wrap.$name(&*self.inner, $($arg),*)).await
                } )*
            }

            #[cfg(feature = "remote")]
            #[async_trait]
            impl $Trait for crate::remote::RemoteCalls {
                $( async fn $name(&self, $($arg: $ty),*) -> Result<$answer> {
                    self.ask($Verb { $($arg),* }).await
                } )*
            }
        )*

        /// Code that runs around the verbs of a store: metrics, planned failures, a cache. Override what you
        /// need.
        #[async_trait]
        pub trait Wrap: Debug + Send + Sync + 'static {
            /// Runs around every verb. The call is made when its future is polled; a future that is not
            /// polled did nothing.
            async fn call<T: Send>(
                &self,
                _verb: &'static str,
                call: impl Future<Output = Result<T>> + Send,
            ) -> Result<T> {
                call.await
            }

            /// Gives [`Store::turns_at_once`].
            fn turns_at_once(&self, inner: &dyn Store) -> usize {
                inner.turns_at_once()
            }

            /// Gives [`Store::connections`].
            fn connections(&self, inner: &dyn Store) -> Connections {
                inner.connections()
            }

            /// Gives [`Store::watch`].
            fn watch(&self, inner: &dyn Store) -> watch::Receiver<Rings> {
                inner.watch()
            }

            $($(
                #[doc = concat!("Runs [`", stringify!($Trait), "::", stringify!($name), "`].")]
                async fn $name(&self, inner: &dyn Store, $($arg: $ty),*) -> Result<$answer> {
                    inner.$name($($arg),*).await
                }
            )*)*
        }

        /// Any verb with its arguments, as it travels to a server.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "each variant is the verb of that name")]
        #[allow(clippy::large_enum_variant, reason = "a call is moved once or twice, and read from a text that is larger")]
        pub enum Call {
            /// What a remote store asks beside the verbs.
            Connection(ConnectionCall),
            $($( $Verb($Verb), )*)*
        }

        impl Call {
            /// The verbs as types and as methods, in the order of the table.
            pub const VERBS: &'static [(&'static str, &'static str)] =
                &[$($( (stringify!($Verb), $Verb::NAME), )*)*];

            /// Has `runner` run the verb, whichever it is.
            pub async fn run_by<R: Runner>(self, runner: &R) -> R::Reply {
                match self {
                    Self::Connection(call) => runner.run_connection_call(call).await,
                    $($( Self::$Verb(verb) => runner.run(verb).await, )*)*
                }
            }
        }
    };
    (@writes read) => { false };
    (@writes write) => { true };
}
