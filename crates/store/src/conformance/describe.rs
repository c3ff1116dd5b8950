//! What a store says about itself, and what time it is there.

use std::collections::BTreeSet;

use super::{Case, scenarios};

scenarios![a_store_says_what_it_is, a_store_knows_the_time];

/// For people: what kind of store it is first, then what it promises; every name once.
async fn a_store_says_what_it_is(case: &Case) {
    let told = case.store().describe().await.unwrap();
    assert!(told.iter().all(|(name, value)| !name.is_empty() && !value.is_empty()), "{told:?}");
    let names: BTreeSet<_> = told.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names.len(), told.len(), "each once: {told:?}");
    assert_eq!(told[0].0, "store");
    assert!(names.contains("durability"), "{told:?}");
    case.submit(case.task()).await;
    let again = case.store().describe().await.unwrap();
    assert!(
        again.iter().map(|(name, _)| name).eq(told.iter().map(|(name, _)| name)),
        "always the same names"
    );
}

/// The store's clock counts, not the caller's.
async fn a_store_knows_the_time(case: &Case) {
    assert_eq!(case.store().now().await.unwrap(), case.now());
    case.pass(7);
    assert_eq!(case.store().due(9).await.unwrap().now, case.now());
}
