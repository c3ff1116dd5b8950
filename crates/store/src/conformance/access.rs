//! Access tokens, and the record of what operators did.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_core::access::Scope;
use windlass_core::{
    AccessToken, AuditEntry, Name, NewAuditEntry, PreviousSecret, Rejected, Retention, limits,
};

use super::{Case, scenarios};
use crate::{AuditListing, Cursor, Page};

scenarios![
    a_token_is_kept_as_it_is,
    tokens_are_listed_by_name,
    a_name_or_an_id_is_taken_once,
    one_of_many_gets_a_name,
    a_revoked_token_is_gone,
    a_bad_token_is_refused,
    tokens_outlive_a_crash,
    what_operators_did_is_listed_newest_first,
    pages_of_the_audit_have_no_gaps,
    a_bad_entry_is_refused,
    the_audit_outlives_a_crash,
    the_audit_is_kept_for_long,
    a_page_of_the_audit_has_bounds,
];

fn name(text: &str) -> Name {
    Name::new("token name", text).unwrap()
}

fn token(case: &Case, text: &str, number: u32) -> AccessToken {
    AccessToken {
        name: name(text),
        id: format!("{number:08x}"),
        digest: [u8::try_from(number % 256).unwrap(); 32],
        scopes: BTreeSet::from([Scope::Read]),
        queues: Vec::new(),
        namespaces: Vec::new(),
        groups: Vec::new(),
        created_at: case.now(),
        created_by: None,
        expires_at: None,
        previous: None,
        last_used_at: None,
    }
}

fn entry(subject: &str) -> NewAuditEntry {
    NewAuditEntry { actor: "ada".into(), action: "task.cancel".into(), subject: subject.into(), reason: None }
}

async fn refusal(case: &Case, token: AccessToken) -> Rejected {
    let before = case.store().access_tokens().await.unwrap();
    let error = case.store().put_access_token(token).await.unwrap_err();
    assert_eq!(case.store().access_tokens().await.unwrap(), before, "nothing has changed");
    error.rejected().unwrap().clone()
}

/// Every field, absent or not.
async fn a_token_is_kept_as_it_is(case: &Case) {
    let least = token(case, "a", 1);
    let most = AccessToken {
        digest: std::array::from_fn(|at| u8::try_from(at * 8).unwrap()),
        scopes: BTreeSet::from(Scope::ALL),
        queues: ["mail-*", "*", "reports"].map(|pattern| pattern.parse().unwrap()).to_vec(),
        namespaces: ["acme-*", "z.Z_9:-"].map(|pattern| pattern.parse().unwrap()).to_vec(),
        groups: ["release", "on-call"].map(|group| Name::new("group", group).unwrap()).to_vec(),
        created_by: Some("Ada 'L.' \"ü\" \\ x".into()),
        expires_at: Some(case.now().plus(Duration::from_micros(1))),
        previous: Some(PreviousSecret {
            id: "89abcdef".into(),
            digest: [0xff; 32],
            expires_at: case.now().plus(Duration::from_micros(2)),
        }),
        last_used_at: Some(case.now()),
        ..token(case, "z.Z_9:-", 0xffff_ffff)
    };
    for one in [&least, &most] {
        case.store().put_access_token(one.clone()).await.unwrap();
    }
    assert_eq!(case.store().access_tokens().await.unwrap(), [least, most]);
}

/// By the bytes of their names.
async fn tokens_are_listed_by_name(case: &Case) {
    assert_eq!(case.store().access_tokens().await.unwrap(), []);
    for (number, text) in (1..).zip(["b", "a:1", "B", "a-1", "_"]) {
        case.store().put_access_token(token(case, text, number)).await.unwrap();
    }
    let all = case.store().access_tokens().await.unwrap();
    assert_eq!(all.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["B", "_", "a-1", "a:1", "b"]);
}

/// And who asks for it again is told what is taken.
async fn a_name_or_an_id_is_taken_once(case: &Case) {
    case.store().put_access_token(token(case, "a", 1)).await.unwrap();
    let conflict = |field: &'static str, value: &str| Rejected::TokenConflict {
        field: field.into(),
        value: value.into(),
    };
    assert_eq!(refusal(case, token(case, "a", 2)).await, conflict("name", "a"));
    assert_eq!(refusal(case, token(case, "b", 1)).await, conflict("id", "00000001"));
    assert_eq!(refusal(case, token(case, "a", 1)).await.code(), "token_conflict");
    case.store().put_access_token(token(case, "A", 2)).await.unwrap();
}

/// Whoever is first, through two handles.
async fn one_of_many_gets_a_name(case: &Case) {
    let stores = [case.store(), case.second().await];
    let asking = (0..16_u32).map(|n| {
        let (store, token) = (stores[n as usize % 2].clone(), token(case, "a", n));
        tokio::spawn(async move { store.put_access_token(token).await })
    });
    let mut refused = 0;
    for asked in asking.collect::<Vec<_>>() {
        if let Err(error) = asked.await.unwrap() {
            assert_eq!(error.code(), "token_conflict");
            refused += 1;
        }
    }
    assert_eq!((refused, case.store().access_tokens().await.unwrap().len()), (15, 1));
}

/// For everybody, at once; its name and id are free again.
async fn a_revoked_token_is_gone(case: &Case) {
    let (other, one) = (case.second().await, token(case, "a", 1));
    case.store().put_access_token(one.clone()).await.unwrap();
    case.store().put_access_token(token(case, "b", 2)).await.unwrap();
    assert!(!other.revoke_access_token(name("c")).await.unwrap());
    assert!(other.revoke_access_token(name("a")).await.unwrap());
    assert!(!case.store().revoke_access_token(name("a")).await.unwrap());
    assert_eq!(case.store().access_tokens().await.unwrap(), [token(case, "b", 2)]);
    case.store().put_access_token(one).await.unwrap();
}

/// As the core says.
async fn a_bad_token_is_refused(case: &Case) {
    for bad in [
        AccessToken { id: "XYZ".into(), ..token(case, "a", 1) },
        AccessToken { scopes: BTreeSet::new(), ..token(case, "a", 1) },
        AccessToken { namespaces: vec!["a*".parse().unwrap(); 257], ..token(case, "a", 1) },
        AccessToken { groups: vec![name("a"); limits::GROUPS + 1], ..token(case, "a", 1) },
        AccessToken { created_by: Some("a\0b".into()), ..token(case, "a", 1) },
    ] {
        assert!(matches!(refusal(case, bad).await, Rejected::Invalid(_)));
    }
}

async fn tokens_outlive_a_crash(case: &Case) {
    case.store().put_access_token(token(case, "a", 1)).await.unwrap();
    case.crash().await;
    assert_eq!(case.store().access_tokens().await.unwrap(), [token(case, "a", 1)]);
}

/// With the moment of the store, to the letter.
async fn what_operators_did_is_listed_newest_first(case: &Case) {
    assert_eq!(case.store().audits(Page::default()).await.unwrap(), AuditListing::default());
    let (first, at) = (entry("1"), case.now());
    case.store().audit(first.clone()).await.unwrap();
    case.pass(1);
    let second = NewAuditEntry { reason: Some("it's \"late\" \\ ü".into()), ..entry("2") };
    case.store().audit(second.clone()).await.unwrap();
    let expected = vec![AuditEntry::new(second, case.now()), AuditEntry::new(first, at)];
    let found = case.second().await.audits(Page::default()).await.unwrap();
    assert_eq!((found.entries, found.next), (expected, None));
}

/// Of any size, in both orders, while more is written.
async fn pages_of_the_audit_have_no_gaps(case: &Case) {
    for n in 0..5 {
        case.store().audit(entry(&n.to_string())).await.unwrap();
    }
    let mut expected = ["0", "1", "2", "3", "4"];
    for oldest_first in [true, false] {
        for limit in 1..=6 {
            let (mut page, mut found) = (Page { limit, after: None, oldest_first }, Vec::new());
            loop {
                let AuditListing { entries, next } = case.store().audits(page).await.unwrap();
                assert!(entries.len() <= limit);
                found.extend(entries.into_iter().map(|entry| entry.subject));
                page.after = next.map(|next| next.to_string().parse::<Cursor>().unwrap());
                if page.after.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected, "by {limit}");
        }
        expected.reverse();
    }
    let page = Page { limit: 2, ..Page::default() };
    let next = case.store().audits(page).await.unwrap().next;
    case.store().audit(entry("5")).await.unwrap();
    let rest = case.store().audits(Page { after: next, ..page }).await.unwrap();
    assert_eq!(rest.entries[0].subject, "2", "what is new does not move what is old");
}

/// As the core says; nothing is written.
async fn a_bad_entry_is_refused(case: &Case) {
    for bad in [
        NewAuditEntry { actor: String::new(), ..entry("1") },
        NewAuditEntry { reason: Some("a\0b".into()), ..entry("1") },
        entry(&"x".repeat(limits::KEY_BYTES + 1)),
    ] {
        let error = case.store().audit(bad).await.unwrap_err();
        assert!(matches!(error.rejected(), Some(Rejected::Invalid(_))), "{error}");
    }
    assert_eq!(case.store().audits(Page::default()).await.unwrap().entries, []);
}

async fn the_audit_outlives_a_crash(case: &Case) {
    case.store().audit(entry("1")).await.unwrap();
    case.crash().await;
    assert_eq!(case.store().audits(Page::default()).await.unwrap().entries.len(), 1);
}

/// Longer than retention keeps tasks; then it goes with the rest, and is not counted.
async fn the_audit_is_kept_for_long(case: &Case) {
    let subjects = async || -> Vec<String> {
        let entries = case.store().audits(Page::default()).await.unwrap().entries;
        entries.into_iter().map(|entry| entry.subject).collect()
    };
    case.store().audit(entry("1")).await.unwrap();
    case.pass(1);
    case.store().audit(entry("2")).await.unwrap();
    case.clock.advance(limits::AUDIT_KEPT - Duration::from_secs(1));
    assert_eq!(case.store().prune(Retention::default(), 9).await.unwrap(), 0);
    assert_eq!(subjects().await, ["2", "1"], "to the microsecond");
    case.clock.advance(Duration::from_micros(1));
    assert_eq!(case.store().prune(Retention::default(), 9).await.unwrap(), 0);
    assert_eq!(subjects().await, ["2"]);
    case.store().audit(entry("3")).await.unwrap();
    assert_eq!(subjects().await, ["3", "2"]);
}

/// Limits: 0 and 1,001 are refused.
async fn a_page_of_the_audit_has_bounds(case: &Case) {
    for (limit, code) in [(0, Some("invalid_task")), (1, None), (1000, None), (1001, Some("invalid_task"))] {
        let answer = case.store().audits(Page { limit, ..Page::default() }).await;
        assert_eq!(answer.err().map(|error| error.code()), code, "limit {limit}");
    }
}
