//! Access tokens, and the record of what operators did.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_core::access::Scope;
use windlass_core::{
    AccessToken, AuditEntry, Name, NewAuditEntry, NewSecret, PreviousSecret, Rejected, Retention, Timestamp,
    limits,
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
    that_there_were_tokens_is_never_forgotten,
    a_rotated_token_has_two_secrets_for_a_while,
    a_bad_rotation_changes_nothing,
    the_last_use_of_a_token_moves_forward,
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
        previous: Vec::new(),
        last_used_at: None,
    }
}

fn former(number: u8, expires_at: Timestamp) -> PreviousSecret {
    PreviousSecret { id: format!("{number:08x}"), digest: [number; 32], expires_at }
}

fn secret(number: u8) -> NewSecret {
    NewSecret { id: format!("{number:08x}"), digest: [number; 32] }
}

fn entry(subject: &str) -> NewAuditEntry {
    NewAuditEntry {
        actor: "ada".into(),
        action: "task.cancel".into(),
        subject: subject.into(),
        reason: None,
        namespace: None,
    }
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
        previous: vec![former(2, case.now()), former(3, case.now().plus(Duration::from_micros(2)))],
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

/// Revoking the last one, a crash and another handle change nothing about it.
async fn that_there_were_tokens_is_never_forgotten(case: &Case) {
    assert!(!case.store().had_access_tokens().await.unwrap());
    let bad = AccessToken { scopes: BTreeSet::new(), ..token(case, "a", 1) };
    refusal(case, bad).await;
    assert!(!case.store().had_access_tokens().await.unwrap(), "there was none");
    case.store().put_access_token(token(case, "a", 1)).await.unwrap();
    assert!(case.store().had_access_tokens().await.unwrap());
    assert!(case.store().revoke_access_token(name("a")).await.unwrap());
    assert_eq!(case.store().access_tokens().await.unwrap(), []);
    assert!(case.second().await.had_access_tokens().await.unwrap());
    case.crash().await;
    assert!(case.store().had_access_tokens().await.unwrap());
}

/// Also if the answer to the first rotation was lost; with no time to keep it, at once none.
async fn a_rotated_token_has_two_secrets_for_a_while(case: &Case) {
    let (first, keep) = (token(case, "a", 1), Duration::from_secs(60));
    case.store().put_access_token(first.clone()).await.unwrap();
    assert!(!case.store().rotate_access_token(name("b"), secret(2), keep).await.unwrap());
    assert_eq!(case.store().access_tokens().await.unwrap(), std::slice::from_ref(&first));
    let until = case.now().plus(keep);
    for _ in 0..2 {
        assert!(case.store().rotate_access_token(name("a"), secret(2), keep).await.unwrap());
        let rotated = AccessToken {
            id: secret(2).id,
            digest: secret(2).digest,
            previous: vec![former(1, until)],
            ..first.clone()
        };
        assert_eq!(case.second().await.access_tokens().await.unwrap(), [rotated]);
        case.pass(1);
    }
    assert!(case.store().rotate_access_token(name("a"), secret(3), keep).await.unwrap());
    let found = case.store().access_tokens().await.unwrap().remove(0);
    assert_eq!(
        (found.id, found.previous),
        (secret(3).id, vec![former(2, case.now().plus(keep)), former(1, until)])
    );
    assert!(case.store().rotate_access_token(name("a"), secret(4), Duration::ZERO).await.unwrap());
    let last = AccessToken { id: secret(4).id, digest: secret(4).digest, ..first };
    assert_eq!(case.store().access_tokens().await.unwrap(), [last]);
}

/// An id that a secret has, also a former one, and more former secrets than may be.
async fn a_bad_rotation_changes_nothing(case: &Case) {
    let keep = Duration::from_secs(60);
    case.store().put_access_token(token(case, "a", 1)).await.unwrap();
    case.store().put_access_token(token(case, "b", 2)).await.unwrap();
    assert!(case.store().rotate_access_token(name("b"), secret(3), keep).await.unwrap());
    let before = case.store().access_tokens().await.unwrap();
    for taken in [2, 3] {
        let refused = case.store().rotate_access_token(name("a"), secret(taken), keep).await.unwrap_err();
        assert_eq!(refused.code(), "token_conflict", "{taken}");
        assert_eq!(refusal(case, token(case, "c", taken.into())).await.code(), "token_conflict");
    }
    let bad = NewSecret { id: "x".into(), ..secret(9) };
    let refused = case.store().rotate_access_token(name("a"), bad, keep).await.unwrap_err();
    assert!(matches!(refused.rejected(), Some(Rejected::Invalid(_))), "{refused}");
    assert_eq!(case.store().access_tokens().await.unwrap(), before);
    for n in 10..18 {
        assert!(case.store().rotate_access_token(name("a"), secret(n), keep).await.unwrap());
    }
    let before = case.store().access_tokens().await.unwrap();
    let refused = case.store().rotate_access_token(name("a"), secret(18), keep).await.unwrap_err();
    assert!(refused.to_string().contains("number of former secrets"), "{refused}");
    assert_eq!(case.store().access_tokens().await.unwrap(), before);
}

/// Never back, whoever comes later; not of a token that was made later, and not of one that is not there.
async fn the_last_use_of_a_token_moves_forward(case: &Case) {
    let (made, at) = (case.now(), |seconds| case.now().plus(Duration::from_secs(seconds)));
    for (number, text) in [(1, "a"), (2, "b"), (3, "c")] {
        case.store().put_access_token(token(case, text, number)).await.unwrap();
    }
    let before = made.minus(Duration::from_micros(1));
    let used = vec![(name("b"), at(9)), (name("a"), at(5)), (name("none"), at(5)), (name("c"), before)];
    case.store().touch_access_tokens(used).await.unwrap();
    case.second().await.touch_access_tokens(vec![(name("a"), at(7)), (name("b"), at(8))]).await.unwrap();
    case.store().touch_access_tokens(Vec::new()).await.unwrap();
    let found = case.store().access_tokens().await.unwrap();
    let last: Vec<_> = found.into_iter().map(|one| one.last_used_at).collect();
    assert_eq!(last, [Some(at(7)), Some(at(9)), None]);
}

/// With the moment of the store, to the letter.
async fn what_operators_did_is_listed_newest_first(case: &Case) {
    assert_eq!(case.store().audits(Page::default()).await.unwrap(), AuditListing::default());
    let (first, at) = (entry("1"), case.now());
    case.store().audit(first.clone()).await.unwrap();
    case.pass(1);
    let second = NewAuditEntry {
        reason: Some("it's \"late\" \\ ü".into()),
        namespace: Some(Name::stored("acme")),
        ..entry("2")
    };
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
