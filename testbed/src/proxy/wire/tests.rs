//! What is seen in bytes as they come, in whatever pieces.

use super::*;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

fn started() -> Requests {
    let mut requests = Requests::default();
    requests.see(&[0, 0, 0, 8, 0, 3, 0, 0]);
    requests
}

fn all(answers: &mut Answers) -> Vec<Seen> {
    std::iter::from_fn(|| answers.next()).collect()
}

#[test]
fn the_answer_to_a_commit_is_found_among_others() {
    let before = [message(b'C', b"BEGIN\0"), message(b'C', b"INSERT 0 1\0")].concat();
    let commit = message(b'C', b"COMMIT\0");
    let after = message(b'Z', b"I");
    let mut answers = Answers::to(&started());
    answers.add(&[&*before, &commit, &after].concat());
    assert_eq!(all(&mut answers), [Seen::Other(before), Seen::Commit(commit), Seen::Other(after)]);
}

#[test]
fn it_is_found_in_pieces_of_every_size() {
    let bytes =
        [message(b'D', b"C\0\0\0\x0bCOMMIT\0"), message(b'C', b"COMMIT\0"), message(b'Z', b"I")].concat();
    for size in 1..bytes.len() {
        let mut answers = Answers::to(&started());
        let mut seen = Vec::new();
        for piece in bytes.chunks(size) {
            answers.add(piece);
            seen.extend(all(&mut answers));
        }
        let commits = seen.iter().filter(|it| matches!(it, Seen::Commit(_))).count();
        assert_eq!(commits, 1, "pieces of {size}: {seen:?}");
        let passed: Vec<u8> = seen.into_iter().flat_map(|(Seen::Commit(it) | Seen::Other(it))| it).collect();
        assert_eq!(passed, bytes, "pieces of {size}");
    }
}

#[test]
fn what_only_looks_like_a_commit_is_none() {
    for other in [
        message(b'C', b"ROLLBACK\0"),
        message(b'C', b"COMMIT PREPARED\0"),
        message(b'N', b"COMMIT\0"),
        message(b'D', &message(b'C', b"COMMIT\0")),
    ] {
        let mut answers = Answers::to(&started());
        answers.add(&other);
        assert_eq!(all(&mut answers), [Seen::Other(other)]);
    }
}

#[test]
fn the_answer_to_a_request_for_encryption_is_one_byte() {
    let mut requests = Requests::default();
    for code in ENCRYPTION {
        requests.see(&[0, 0, 0, 8]);
        requests.see(&code.to_be_bytes());
    }
    let mut answers = Answers::to(&requests);
    let commit = message(b'C', b"COMMIT\0");
    answers.add(&[b"NN", &*commit].concat());
    assert_eq!(all(&mut answers), [Seen::Other(b"NN".to_vec()), Seen::Commit(commit)]);
}

#[test]
fn nothing_is_read_once_it_is_encrypted() {
    let mut requests = Requests::default();
    requests.see(&[[0, 0, 0, 8], ENCRYPTION[0].to_be_bytes()].concat());
    let mut answers = Answers::to(&requests);
    let bytes = [b"S", &*message(b'C', b"COMMIT\0"), b"\x17\xff\xff\xff\xff"].concat();
    answers.add(&bytes);
    assert_eq!(all(&mut answers), [Seen::Other(bytes)]);
}

#[test]
fn another_protocol_goes_through_at_once() {
    let mut requests = Requests::default();
    requests.see(b"GET / HTTP/1.1\r\n");
    let mut answers = Answers::to(&requests);
    answers.add(b"HTTP/1.1 200 OK\r\n");
    assert_eq!(all(&mut answers), [Seen::Other(b"HTTP/1.1 200 OK\r\n".to_vec())]);
}
