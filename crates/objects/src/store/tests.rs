//! A store against one in memory that is told to fail. Nobody waits: pauses are added up.

use super::*;
use crate::testing::{Asked, BUCKET, Fake, Fault, REGION, SECRET, TOKEN};
use std::time::Duration;
use thalweg_mover::failure::Reason;

// Stores that say what is not so, or not what they did.
mod doubts;

const PATIENCE: Duration = Duration::from_secs(60);

fn fake() -> (Fake, Store) {
    let fake = Fake::start().unwrap();
    let store = fake.store().unwrap();
    (fake, store)
}

/// Bytes that are not the same anywhere.
fn content(bytes: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(bytes as u64);
    std::iter::repeat_with(|| rng.u8(..)).take(bytes).collect()
}

fn say(status: u16, headers: Vec<(&'static str, String)>, words: &str) -> Fault {
    Fault::Say { status, headers, words: words.to_owned() }
}

/// The object as it was seen, read whole.
fn read(store: &Store, key: &str, seen: &Seen) -> Result<Vec<u8>> {
    let mut buffer = vec![0; seen.size as usize];
    let got = store.read(key, seen, 0, seen.size, &mut buffer)?;
    assert_eq!(got, buffer.len());
    Ok(buffer)
}

fn seen(store: &Store, key: &str) -> Seen {
    store.head(key).unwrap().unwrap().seen
}

fn numbers(asked: &[Asked], header: &str) -> Vec<Option<String>> {
    asked.iter().map(|asked| asked.header(header).map(str::to_owned)).collect()
}

// Reading.

#[test]
fn an_object_is_written_looked_at_listed_read_and_removed() {
    let (fake, store) = fake();
    let about = About {
        mtime: Some(Time { seconds: 7, nanos: 5 }),
        mode: Some(0o100_640),
        uid: Some(1),
        gid: Some(2),
        blake3: Some(Digest([7; 32])),
    };
    let bytes = content(1000);
    for key in ["run7/a b+c%.dat", "run7/ä", "run7//x", "/slash"] {
        let put = store.put(key, &bytes, &about, &If::Any).unwrap();
        let head = store.head(key).unwrap().unwrap();
        assert_eq!((head.seen.size, &head.seen.etag), (1000, &put.etag));
        assert_eq!((head.about, head.crc64.is_some()), (about, true));
        assert_eq!(read(&store, key, &head.seen).unwrap(), bytes);
    }
    let page = store.list("run7/", false, None).unwrap();
    let keys = page.objects.iter().map(|listed| listed.key.as_str()).collect::<Vec<_>>();
    assert_eq!((keys, page.next), (vec!["run7//x", "run7/a b+c%.dat", "run7/ä"], None));
    let (listed, head) = (&page.objects[0].seen, seen(&store, "run7//x"));
    assert_eq!((&listed.etag, listed.modified), (&head.etag, head.modified));
    assert!(store.remove(&strings(&["run7/ä", "run7//x"])).unwrap().is_empty());
    assert_eq!(fake.keys(), ["/slash", "run7/a b+c%.dat"]);
    assert_eq!(store.head("run7/ä").unwrap(), None);
}

#[test]
fn the_soonest_answer_says_how_far_a_store_is() {
    let (_fake, store) = fake();
    assert_eq!((store.answers_in(), store.requests_at_once(0, 16)), (Duration::ZERO, 16));
    store.answered_in(Duration::from_secs(900));
    // A connection was made, without TLS here.
    assert_eq!(store.answers_in(), Duration::from_secs(450));
    assert_eq!([0, 16 << 20].map(|bytes| store.requests_at_once(bytes, 16)), [128, 16]);
    store.list("", false, None).unwrap();
    let soonest = store.answers_in();
    assert!(soonest > Duration::ZERO && soonest < Duration::from_secs(900));
    store.answered_in(soonest * 2);
    assert_eq!(store.answers_in(), soonest);
}

#[test]
fn reads_in_order_go_on_in_one_body() {
    let (fake, store) = fake();
    let bytes = content(300_000);
    fake.put("k", &bytes);
    let seen = seen(&store, "k");
    let mut all = Vec::new();
    let mut buffer = vec![0; 70_000];
    while all.len() < bytes.len() {
        let got = store.read("k", &seen, all.len() as u64, seen.size, &mut buffer).unwrap();
        all.extend_from_slice(&buffer[..got]);
    }
    assert_eq!(all, bytes);
    assert_eq!(store.read("k", &seen, seen.size, seen.size, &mut buffer).unwrap(), 0);
    assert_eq!(numbers(&fake.asked_to("GetObject"), "range"), [Some("bytes=0-299999".to_owned())]);
    // A reader that goes on elsewhere has a body of its own.
    assert_eq!(store.read("k", &seen, 5, 9, &mut buffer[..2]).unwrap(), 2);
    assert_eq!(buffer[..2], bytes[5..7]);
    assert_eq!(fake.asked_to("GetObject")[1].header("range"), Some("bytes=5-8"));
}

#[test]
fn a_body_that_is_cut_goes_on_where_it_broke_and_with_the_same_version() {
    let (fake, store) = fake();
    let bytes = content(300_000);
    let etag = fake.put("k", &bytes);
    let seen = seen(&store, "k");
    // The length that was told is right, and the content ends before.
    fake.fail("GetObject", 1, Fault::Cut(100_000));
    fake.fail("GetObject", 1, Fault::Cut(0));
    assert_eq!(read(&store, "k", &seen).unwrap(), bytes);
    let asked = fake.asked_to("GetObject");
    let ranges =
        ["bytes=0-299999", "bytes=100000-299999", "bytes=100000-299999"].map(|range| Some(range.to_owned()));
    assert_eq!(numbers(&asked, "range"), ranges);
    assert_eq!(numbers(&asked, "if-match"), [(); 3].map(|()| Some(format!("\"{etag}\""))));
}

#[test]
fn a_look_before_much_content_goes_by_the_connection_that_carries_it() {
    let (fake, store) = fake();
    store.list("", false, None).unwrap();
    let bytes = content(100_000);
    assert_eq!(store.head_before("k", 100_000).unwrap(), None);
    store.put("k", &bytes, &About::default(), &If::Absent).unwrap();
    let by = |operation| fake.asked_to(operation)[0].connection;
    assert_eq!(by("HeadObject"), by("PutObject"));
    assert_ne!(by("ListObjectsV2"), by("PutObject"));
}

#[test]
fn content_that_is_on_the_way_is_read_without_another_request() {
    let (fake, store) = fake();
    let bytes = content(300_000);
    fake.put("k", &bytes);
    let head = store.head("k").unwrap().unwrap();
    let looks = fake.asked_to("HeadObject").len();
    assert_eq!(store.begin_reading("k", 300_000).unwrap(), Some(Head { crc64: None, ..head.clone() }));
    assert_eq!(store.begin_reading("other", 300_000).unwrap(), None);
    assert_eq!(read(&store, "k", &head.seen).unwrap(), bytes);
    assert_eq!(fake.asked_to("GetObject").len(), 2, "one of them of what is not there");
    assert_eq!(fake.asked_to("HeadObject").len(), looks);
    // What is longer is read in order, and what is forgotten or another version is asked for again.
    store.begin_reading("k", 299_999).unwrap();
    assert_eq!(read(&store, "k", &head.seen).unwrap(), bytes);
    store.begin_reading("k", 300_000).unwrap();
    store.forget_begun();
    assert_eq!(read(&store, "k", &head.seen).unwrap(), bytes);
    assert_eq!(fake.asked_to("GetObject").len(), 6);
    store.begin_reading("k", 300_000).unwrap();
    fake.put("k", &bytes[1..]);
    let now = store.begin_reading("k", 300_000).unwrap().unwrap();
    assert_eq!(read(&store, "k", &now.seen).unwrap(), &bytes[1..]);
    assert_eq!(read(&store, "k", &head.seen).unwrap(), bytes, "what was on the way is of the version before");
    assert_eq!(read(&store, "k", &head.seen).unwrap_err().kind, FailureKind::Changed);
    // One that breaks off on the way goes on where it broke.
    fake.fail("GetObject", 1, Fault::Cut(100_000));
    store.begin_reading("k", 300_000).unwrap();
    assert_eq!(read(&store, "k", &now.seen).unwrap(), &bytes[1..]);
}

#[test]
fn a_small_object_is_looked_at_and_read_with_one_request() {
    let (fake, store) = fake();
    let time = Some(Time { seconds: 7, nanos: 5 });
    let about = About { mtime: time, mode: Some(0o100_640), ..About::default() };
    let bytes = content(1000);
    store.put("k", &bytes, &about, &If::Any).unwrap();
    fake.put("empty", b"");
    let head = Head { crc64: None, ..store.head("k").unwrap().unwrap() };
    let looks = fake.asked_to("HeadObject").len();
    assert_eq!(store.fetch("k", 999).unwrap(), Some((head.clone(), None)));
    assert_eq!(store.fetch("k", 1000).unwrap(), Some((head, Some(bytes))));
    assert_eq!(store.fetch("empty", 0).unwrap().unwrap().1, Some(Vec::new()));
    assert_eq!(store.fetch("other", 1000).unwrap(), None);
    let asked = |operation| fake.asked_to(operation).len();
    assert_eq!((asked("GetObject"), asked("HeadObject")), (4, looks));
}

#[test]
fn an_object_that_changed_is_not_mixed_with_what_it_was() {
    let (fake, store) = fake();
    fake.put("k", &content(300_000));
    let seen = seen(&store, "k");
    let mut buffer = vec![0; 1000];
    store.read("k", &seen, 0, 1000, &mut buffer).unwrap();
    fake.put("k", &content(300_001));
    let failure = store.read("k", &seen, 1000, 2000, &mut buffer).unwrap_err();
    assert_eq!((failure.kind, failure.range), (FailureKind::Changed, Some((1000, 2000))));
    // And by a store that does not know the condition.
    let headers =
        vec![("content-range", "bytes 1000-1999/300000".to_owned()), ("etag", "\"other\"".to_owned())];
    fake.fail("GetObject", 1, say(206, headers, &"x".repeat(1000)));
    assert_eq!(store.read("k", &seen, 1000, 2000, &mut buffer).unwrap_err().kind, FailureKind::Changed);
}

#[test]
fn a_store_that_gives_another_range_is_not_believed() {
    let (fake, store) = fake();
    let etag = fake.put("k", &content(3000));
    let seen = seen(&store, "k");
    let mut buffer = vec![0; 1000];
    let quoted = format!("\"{etag}\"");
    for (status, range) in [(206, Some("bytes 0-999/3000")), (206, None), (200, None)] {
        let mut headers = vec![("etag", quoted.clone())];
        headers.extend(range.map(|range| ("content-range", range.to_owned())));
        fake.fail("GetObject", 1, say(status, headers, &"x".repeat(1000)));
        let failure = store.read("k", &seen, 1000, 2000, &mut buffer).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Protocol, "{failure}");
    }
}

#[test]
fn a_body_that_breaks_again_and_again_without_bringing_anything_ends_with_the_patience() {
    let (fake, store) = fake();
    fake.put("k", &content(1000));
    let seen = seen(&store, "k");
    fake.fail("GetObject", 1000, Fault::Cut(0));
    let failure = read(&store, "k", &seen).unwrap_err();
    assert_eq!((failure.kind, failure.range), (FailureKind::Connection, Some((0, 1000))));
    assert!(fake.paused() <= PATIENCE);
    assert!(fake.asked_to("GetObject").len() < 100);
}

// What is asked again.

#[test]
fn what_may_pass_is_asked_again() {
    for fault in [
        Fault::refuse(500, "InternalError"),
        Fault::refuse(502, ""),
        Fault::refuse(503, "SlowDown"),
        Fault::refuse(504, ""),
        Fault::refuse(429, "TooManyRequests"),
        Fault::refuse(400, "RequestTimeout"),
        Fault::refuse(400, "IncompleteBody"),
        Fault::refuse(520, ""),
        Fault::HangUp,
    ] {
        let (fake, store) = fake();
        fake.put("k", b"content");
        fake.fail("ListObjectsV2", 2, fault.clone());
        assert_eq!(store.list("", false, None).unwrap().objects.len(), 1, "{fault:?}");
        assert_eq!(fake.asked().len(), 3, "{fault:?}");
        assert!(fake.paused() > Duration::ZERO && fake.paused() <= PATIENCE);
    }
}

#[test]
fn what_stays_refused_is_asked_once_and_says_what_the_store_says() {
    for (status, code, kind) in [
        (403, "AccessDenied", FailureKind::Permission),
        (403, "SignatureDoesNotMatch", FailureKind::Permission),
        (404, "NoSuchBucket", FailureKind::NotFound),
        (400, "InvalidArgument", FailureKind::Usage),
        (412, "PreconditionFailed", FailureKind::Conflict),
        (403, "InvalidObjectState", FailureKind::Unsupported),
        (507, "InsufficientStorage", FailureKind::Space),
    ] {
        let (fake, store) = fake();
        fake.fail("ListObjectsV2", 9, Fault::refuse(status, code));
        let failure = store.list("", false, None).unwrap_err();
        assert_eq!((failure.kind, fake.asked().len()), (kind, 1), "{failure}");
        let words = failure.to_string();
        assert!(words.starts_with(&format!("list the bucket failed: `s3://{BUCKET}`")), "{words}");
        assert!(words.contains(code) && words.contains("Words of the store."), "{words}");
        assert_eq!(words.contains("s3:ListBucket"), code == "AccessDenied", "{words}");
    }
}

#[test]
fn a_store_that_stays_busy_ends_the_patience_with_its_own_words() {
    let (fake, store) = fake();
    fake.fail("ListObjectsV2", 1000, Fault::refuse(503, "SlowDown"));
    let failure = store.list("", false, None).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection);
    assert!(failure.cause.contains("503 SlowDown: Words of the store."), "{failure}");
    let asked = fake.asked_to("ListObjectsV2").len();
    assert!(failure.cause.ends_with(&format!("asked {asked} times")), "{failure}");
    assert!(fake.paused() <= PATIENCE);
}

#[test]
fn a_store_says_when_to_come_back_and_is_heeded() {
    let (fake, store) = fake();
    let headers = vec![("retry-after", "42".to_owned())];
    fake.fail("ListObjectsV2", 1, say(503, headers, ""));
    store.list("", false, None).unwrap();
    assert_eq!(fake.paused(), Duration::from_secs(42));
}

#[test]
fn nobody_who_answers_is_asked_three_times() {
    let fake = Fake::start().unwrap();
    // Nobody listens at the near end of a connection, and nobody else gets its port.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connected = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let endpoint = Some(format!("http://{}", connected.local_addr().unwrap()));
    let options = Options { endpoint, ..fake.options() };
    let store = Store::open(&fake.location(""), &options, &fake.surroundings(PATIENCE)).unwrap();
    let failure = store.list("", false, None).unwrap_err();
    assert_eq!(
        (failure.kind, failure.reason),
        (FailureKind::Connection, Reason::StoreNotAnswered),
        "{failure}"
    );
    assert!(failure.cause.ends_with("asked 3 times"), "{failure}");
}

#[test]
fn a_bucket_in_another_region_is_asked_there_from_then_on() {
    let elsewhere = "eu-west-1";
    let told = || vec![("x-amz-bucket-region", elsewhere.to_owned())];
    let named =
        format!("<Error><Code>AuthorizationQueryParametersError</Code><Region>{elsewhere}</Region></Error>");
    for fault in
        [say(301, told(), ""), say(307, told(), ""), say(400, told(), ""), say(400, Vec::new(), &named)]
    {
        let (fake, store) = fake();
        fake.put("k", b"content");
        fake.fail("ListObjectsV2", 1, fault);
        store.list("", false, None).unwrap();
        store.head("k").unwrap();
        assert!(fake.asked_to("HeadObject")[0].query["X-Amz-Credential"].contains(elsewhere));
        let signed = fake.asked_to("ListObjectsV2");
        let signed = signed.iter().map(|asked| asked.query["X-Amz-Credential"].clone()).collect::<Vec<_>>();
        assert!(signed[0].contains(REGION) && signed[1].contains(elsewhere), "{signed:?}");
        assert_eq!(fake.paused(), Duration::ZERO);
    }
    // One that sends back and forth is asked twice.
    let (fake, store) = fake();
    fake.fail("ListObjectsV2", 1, say(301, told(), ""));
    fake.fail("ListObjectsV2", 9, say(301, vec![("x-amz-bucket-region", "us-west-2".to_owned())], ""));
    let failure = store.list("", false, None).unwrap_err();
    assert_eq!(fake.asked().len(), 2);
    assert!(failure.cause.contains("the bucket is in the region `us-west-2`"), "{failure}");
}

#[test]
fn amazon_has_an_address_for_each_region() {
    let there = |address: &str| {
        let there = endpoint_in(&Url::parse(address).unwrap(), "us-east-1", "eu-west-1");
        there.map(|there| there.to_string())
    };
    let address = |host: &str| Some(format!("https://{host}/"));
    for (host, expected) in [
        ("s3.us-east-1.amazonaws.com", Some("s3.eu-west-1.amazonaws.com")),
        ("s3.amazonaws.com", Some("s3.eu-west-1.amazonaws.com")),
        ("s3-fips.dualstack.us-east-1.amazonaws.com", Some("s3-fips.dualstack.eu-west-1.amazonaws.com")),
        // Signed for the wrong one, and reached in the right one.
        ("s3.dualstack.eu-west-1.amazonaws.com", Some("s3.dualstack.eu-west-1.amazonaws.com")),
        (
            "bucket.vpce-1a.s3.eu-west-1.vpce.amazonaws.com",
            Some("bucket.vpce-1a.s3.eu-west-1.vpce.amazonaws.com"),
        ),
        // Nobody who chose these wants the public one.
        ("bucket.vpce-1a.s3.us-east-1.vpce.amazonaws.com", None),
        ("s3-accelerate.amazonaws.com", None),
    ] {
        assert_eq!(there(&format!("https://{host}")), expected.and_then(address), "{host}");
    }
}

#[test]
fn credentials_that_ended_are_fetched_again_once() {
    let fake = Fake::start().unwrap();
    let surroundings = fake.surroundings(PATIENCE);
    let (env, looks) = (surroundings.env.clone(), AtomicU64::new(0));
    // Other ones at each look.
    let env = move |name: &str| match name {
        "AWS_SESSION_TOKEN" => Some(format!("{TOKEN}-{}", looks.fetch_add(1, Ordering::Relaxed))),
        _ => env(name),
    };
    let surroundings = Surroundings { env: Arc::new(env), ..surroundings };
    let store = Store::open(&fake.location(""), &fake.options(), &surroundings).unwrap();
    fake.fail("ListObjectsV2", 1, Fault::refuse(400, "ExpiredToken"));
    store.list("", false, None).unwrap();
    assert_eq!((fake.asked().len(), fake.paused()), (2, Duration::ZERO));
    let tokens =
        fake.asked().iter().map(|asked| asked.query["X-Amz-Security-Token"].clone()).collect::<Vec<_>>();
    assert_ne!(tokens[0], tokens[1]);
    fake.fail("ListObjectsV2", 9, Fault::refuse(400, "ExpiredToken"));
    let failure = store.list("", false, None).unwrap_err();
    assert_eq!((failure.kind, fake.asked().len()), (FailureKind::Permission, 4), "{failure}");
}

#[test]
fn a_clock_that_is_not_the_stores_is_passed_over() {
    let (fake, store) = fake();
    // 2001-09-09T01:46:40Z.
    let date = ("date", "Sun, 09 Sep 2001 01:46:40 GMT".to_owned());
    for code in ["RequestTimeTooSkewed", "AccessDenied"] {
        let words = format!("<Error><Code>{code}</Code></Error>");
        fake.fail("ListObjectsV2", 1, say(403, vec![date.clone()], &words));
        store.list("", false, None).unwrap();
        let asked = fake.asked();
        assert!(asked[asked.len() - 1].query["X-Amz-Date"].starts_with("20010909T"), "{code}");
        // For the next one it is as wrong as before.
        store.skew_seconds.store(0, Ordering::Relaxed);
    }
    let words = "<Error><Code>RequestTimeTooSkewed</Code></Error>";
    fake.fail("ListObjectsV2", 9, say(403, vec![date], words));
    let failure = store.list("", false, None).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Permission);
    assert!(failure.cause.contains("its clock says 2001-09-09T01:46:40Z"), "{failure}");
}

#[test]
fn why_a_head_is_refused_is_asked_for() {
    let (fake, store) = fake();
    fake.put("k", b"content");
    // As a head comes: without words.
    fake.fail("HeadObject", 1, say(400, Vec::new(), ""));
    fake.fail("GetObject", 1, Fault::refuse(400, "RequestTimeout"));
    assert!(store.head("k").unwrap().is_some());
    assert!(fake.paused() > Duration::ZERO);
    fake.fail("HeadObject", 1, say(403, Vec::new(), ""));
    fake.fail("GetObject", 1, Fault::refuse(403, "AccessDenied"));
    let failure = store.head("k").unwrap_err();
    assert!(failure.cause.contains("AccessDenied: Words of the store."), "{failure}");
    assert!(failure.cause.contains("s3:GetObject"), "{failure}");
}

// Writing.

#[test]
fn what_the_store_tells_back_is_how_it_is_asked_to_compare() {
    let (fake, store) = fake();
    assert_eq!(store.checks(), Checks::Unknown);
    store.put("k", b"content", &About::default(), &If::Any).unwrap();
    assert_eq!(store.checks(), Checks::Crc64);
    store.put("k", b"content", &About::default(), &If::Any).unwrap();
    let asked = fake.asked_to("PutObject");
    let by = |header| asked.iter().map(|asked| asked.header(header).is_some()).collect::<Vec<_>>();
    assert_eq!((by("x-amz-checksum-crc64nvme"), by("content-md5")), (vec![true, true], vec![true, false]));
    // Stores refuse what begins like this and is not signed.
    assert!(asked[0].query["X-Amz-SignedHeaders"].contains("x-amz-checksum-crc64nvme"));
    assert_eq!(asked[0].header("content-length"), Some("7"));
}

#[test]
fn a_store_that_knows_no_crc64_is_given_md5() {
    // One passes over it, others refuse it.
    for refusal in [None, Some((501, "NotImplemented")), Some((400, "InvalidRequest"))] {
        let (fake, store) = fake();
        fake.forget_crc64();
        if let Some((status, code)) = refusal {
            fake.fail("PutObject", 1, Fault::refuse(status, code));
        }
        store.put("k", b"content", &About::default(), &If::Any).unwrap();
        assert_eq!(store.checks(), Checks::Md5);
        store.put("k", b"content", &About::default(), &If::Any).unwrap();
        let asked = fake.asked_to("PutObject");
        let last = &asked[asked.len() - 1];
        assert_eq!(last.header("x-amz-checksum-crc64nvme"), None);
        assert!(asked.iter().all(|asked| asked.header("content-md5").is_some()));
        assert_eq!(asked.len(), if refusal.is_some() { 3 } else { 2 });
        let upload = store.begin("k", &About::default()).unwrap();
        let parts = [store.put_part(&upload, 1, b"content").unwrap()];
        store.complete(&upload, &parts, &If::Any).unwrap();
        assert_eq!(fake.asked_to("CompleteMultipartUpload")[0].header("x-amz-checksum-crc64nvme"), None);
    }
}

#[test]
fn a_store_that_got_something_else_is_found_out_and_the_part_is_named() {
    let (fake, store) = fake();
    fake.fail("PutObject", 1, Fault::Misread);
    let failure = store.put("k", b"content", &About::default(), &If::Any).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Damage, "{failure}");
    let upload = store.begin("k", &About::default()).unwrap();
    fake.fail("UploadPart", 1, Fault::Misread);
    let failure = store.put_part(&upload, 3, b"content").unwrap_err();
    assert_eq!(failure.kind, FailureKind::Damage);
    assert!(failure.cause.contains("part 3"), "{failure}");
    // It is not left there for the next one to take for the file.
    let asked = numbers(&fake.asked_to("DeleteObject"), "if-match");
    assert!(fake.content("k").is_none() && asked.iter().all(Option::is_some), "{asked:?}");
}

#[test]
fn an_object_is_made_of_parts_and_compared_as_a_whole() {
    let (fake, store) = fake();
    let about = About { mode: Some(0o100_600), ..About::default() };
    let bytes = content(2500);
    let upload = store.begin("k", &about).unwrap();
    assert_eq!(store.uploads("k", None, 1000).unwrap().0[0].id, upload.id);
    assert!(store.uploads("other", None, 1000).unwrap().0.is_empty());
    let mut parts = Vec::new();
    for (number, piece) in [3, 1, 2].into_iter().zip([&bytes[2000..], &bytes[..1000], &bytes[1000..2000]]) {
        parts.push(store.put_part(&upload, number, piece).unwrap());
    }
    // A page at a time; another process finds what arrived.
    fake.set_page_keys(2);
    let mut listed = store.parts(&upload).unwrap();
    assert_eq!(listed.iter().map(|part| part.number).collect::<Vec<_>>(), [1, 2, 3]);
    parts.sort_by_key(|part| part.number);
    assert_eq!(listed, parts);
    let seen = store.complete(&upload, &parts, &If::Absent).unwrap();
    assert_eq!(fake.content("k").unwrap(), bytes);
    assert_eq!(seen, self::seen(&store, "k"));
    assert_eq!(store.head("k").unwrap().unwrap().about, about);
    let asked = &fake.asked_to("CompleteMultipartUpload")[0];
    let whole = crate::answers::crc64_words(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &bytes));
    assert_eq!(asked.header("x-amz-checksum-crc64nvme"), Some(whole.as_str()));
    // The upload is none any more.
    assert_eq!(store.parts(&upload).unwrap_err().kind, FailureKind::NotFound);
    store.abort(&upload).unwrap();
    listed.clear();
    assert_eq!(store.complete(&upload, &listed, &If::Any).unwrap_err().kind, FailureKind::Unsupported);
    assert_eq!(store.put_part(&upload, 0, b"").unwrap_err().kind, FailureKind::Unsupported);
}

#[test]
fn an_error_in_a_success_is_one() {
    let (fake, store) = fake();
    let upload = store.begin("k", &About::default()).unwrap();
    let parts = [store.put_part(&upload, 1, b"content").unwrap()];
    let hidden = |code: &str| say(200, Vec::new(), &format!("<Error><Code>{code}</Code></Error>"));
    fake.fail("CompleteMultipartUpload", 1, hidden("InvalidPart"));
    let failure = store.complete(&upload, &parts, &If::Any).unwrap_err();
    assert!(failure.cause.contains("InvalidPart"), "{failure}");
    assert_eq!(fake.content("k"), None);
    // This one passes.
    fake.fail("CompleteMultipartUpload", 1, hidden("InternalError"));
    store.complete(&upload, &parts, &If::Any).unwrap();
    assert_eq!(fake.content("k").unwrap(), b"content");
}

#[test]
fn an_object_that_is_not_its_parts_is_found_out() {
    let (fake, store) = fake();
    let upload = store.begin("k", &About::default()).unwrap();
    let parts = [store.put_part(&upload, 1, b"content").unwrap()];
    let told = |crc: u64| {
        let crc = crate::answers::crc64_words(crc);
        format!(
            "<CompleteMultipartUploadResult><ETag>e</ETag><ChecksumCRC64NVME>{crc}</ChecksumCRC64NVME>\
             </CompleteMultipartUploadResult>"
        )
    };
    fake.fail("CompleteMultipartUpload", 1, say(200, Vec::new(), &told(1)));
    assert_eq!(store.complete(&upload, &parts, &If::Any).unwrap_err().kind, FailureKind::Damage);
    // And if only its head tells that it is shorter.
    let right = told(parts[0].crc64.unwrap());
    fake.fail("CompleteMultipartUpload", 1, say(200, Vec::new(), &right));
    let head = vec![
        ("content-length", "6".to_owned()),
        ("etag", "\"e\"".to_owned()),
        ("last-modified", "Sun, 09 Sep 2001 01:46:40 GMT".to_owned()),
    ];
    fake.fail("HeadObject", 1, say(200, head, ""));
    assert_eq!(store.complete(&upload, &parts, &If::Any).unwrap_err().kind, FailureKind::Damage);
}

#[test]
fn a_condition_that_does_not_hold_is_a_conflict() {
    let (fake, store) = fake();
    let etag = fake.put("k", b"theirs");
    let about = About::default();
    assert_eq!(store.put("k", b"ours", &about, &If::Absent).unwrap_err().kind, FailureKind::Conflict);
    assert_eq!(
        store.put("k", b"ours", &about, &If::Is("x".to_owned())).unwrap_err().kind,
        FailureKind::Conflict
    );
    assert_eq!(fake.content("k").unwrap(), b"theirs");
    store.put("k", b"ours", &about, &If::Is(etag)).unwrap();
    store.put("new", b"ours", &about, &If::Absent).unwrap();
}

#[test]
fn what_was_written_by_an_attempt_whose_answer_was_lost_is_ours() {
    let (fake, store) = fake();
    fake.fail("PutObject", 1, Fault::Forget);
    let seen = store.put("k", b"content", &About::default(), &If::Absent).unwrap();
    assert_eq!((seen.etag, fake.asked_to("PutObject").len()), (self::seen(&store, "k").etag, 2));
    let upload = store.begin("whole", &About::default()).unwrap();
    let parts = [store.put_part(&upload, 1, b"content").unwrap()];
    fake.fail("CompleteMultipartUpload", 1, Fault::Forget);
    store.complete(&upload, &parts, &If::Absent).unwrap();
    assert_eq!(fake.content("whole").unwrap(), b"content");
    // Another one's with that name is not.
    fake.put("theirs", b"other");
    fake.fail("PutObject", 1, Fault::HangUp);
    let failure = store.put("theirs", b"content", &About::default(), &If::Absent).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Conflict);
}

#[test]
fn much_is_not_sent_before_the_bucket_is_found() {
    let (fake, store) = fake();
    fake.fail("HeadBucket", 1, say(301, vec![("x-amz-bucket-region", "eu-west-1".to_owned())], ""));
    store.put("k", &content(100_000), &About::default(), &If::Any).unwrap();
    let asked = fake.asked();
    let operations = asked.iter().map(|asked| asked.operation).collect::<Vec<_>>();
    assert_eq!(operations, ["HeadBucket", "HeadBucket", "PutObject"]);
    assert!(asked[2].query["X-Amz-Credential"].contains("eu-west-1"));
    // What broke while it was sent may have been refused: the store can say so the next time.
    fake.fail("PutObject", 1, Fault::HangUp);
    store.put("k", &content(100_000), &About::default(), &If::Any).unwrap();
    let asked = fake.asked_to("PutObject");
    let asks = Some("100-continue".to_owned());
    assert_eq!(numbers(&asked[1..], "expect"), [None, asks.clone()]);
    // One that does not know how to be asked first is not asked so again.
    fake.fail("PutObject", 1, Fault::HangUp);
    fake.fail("PutObject", 1, Fault::refuse(417, ""));
    fake.fail("PutObject", 1, Fault::HangUp);
    store.put("k", &content(100_000), &About::default(), &If::Any).unwrap();
    let asked = fake.asked_to("PutObject");
    assert_eq!(numbers(&asked[3..], "expect"), [None, asks, None, None]);
}

// Lists.

#[test]
fn a_list_goes_on_page_by_page_and_prefixes_are_told_once() {
    let (fake, store) = fake();
    for key in ["a", "b/1", "b/2", "c/1", "d", "e/1"] {
        fake.put(key, b"");
    }
    fake.set_page_keys(2);
    let (mut keys, mut prefixes, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = store.list("", true, after.as_deref()).unwrap();
        keys.extend(page.objects.into_iter().map(|listed| listed.key));
        prefixes.extend(page.prefixes);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((keys, prefixes), (strings(&["a", "d"]), strings(&["b/", "c/", "e/"])));
    assert_eq!(fake.asked().len(), 3);
    assert_eq!(store.list("", true, Some("nowhere")).unwrap_err().kind, FailureKind::Usage);
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A list with these keys, that goes on at `token`.
fn list_of(keys: &[&str], token: &str) -> Fault {
    let contents = keys.iter().map(|key| {
        format!(
            "<Contents><Key>{key}</Key><Size>1</Size><LastModified>2001-09-09T01:46:40Z</LastModified></Contents>"
        )
    });
    let more = !token.is_empty();
    let words = format!(
        "<ListBucketResult><IsTruncated>{more}</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>\
         {}</ListBucketResult>",
        contents.collect::<String>()
    );
    say(200, Vec::new(), &words)
}

#[test]
fn a_list_without_end_or_with_keys_that_nobody_asked_for_is_not_believed() {
    for (first, second, words) in [
        (list_of(&["p/b"], "t"), Some(list_of(&["p/c"], "t")), "never end"),
        (list_of(&["q"], ""), None, "was not asked for"),
    ] {
        let (fake, store) = fake();
        fake.fail("ListObjectsV2", 1, first);
        let mut page = store.list("p/", false, None);
        if let Some(second) = second {
            fake.fail("ListObjectsV2", 1, second);
            page = store.list("p/", false, page.unwrap().next.as_deref());
        }
        let failure = page.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Protocol);
        assert!(failure.cause.contains(words), "{failure}");
    }
    // Nothing or the same for ever, and each time at another place; or in a circle.
    for (keys, places, words) in [
        (&[][..], usize::MAX, "nothing new in it"),
        (&["p/b", "p/a"], usize::MAX, "nothing new in it"),
        (&["p/a"], 3, "never end"),
    ] {
        let (fake, store) = fake();
        let (mut after, mut page) = (None, 0);
        let failure = loop {
            page += 1;
            fake.fail("ListObjectsV2", 1, list_of(keys, &format!("t{}", page % places)));
            match store.list("p/", false, after.as_deref()) {
                Ok(page) => after = page.next,
                Err(failure) => break failure,
            }
        };
        assert!(failure.cause.contains(words), "{failure}");
    }
}

#[test]
fn a_list_without_the_order_of_bytes_is_one() {
    let (fake, store) = fake();
    fake.fail("ListObjectsV2", 1, list_of(&["p/b", "p/a"], "t"));
    fake.fail("ListObjectsV2", 1, list_of(&["p/B"], ""));
    let first = store.list("p/", false, None).unwrap();
    assert_eq!(first.objects.iter().map(|listed| listed.key.as_str()).collect::<Vec<_>>(), ["p/b", "p/a"]);
    let last = store.list("p/", false, first.next.as_deref()).unwrap();
    assert_eq!((last.objects[0].key.as_str(), last.next), ("p/B", None));
}

#[test]
fn an_answer_that_is_too_long_or_no_xml_is_refused() {
    let (fake, store) = fake();
    fake.fail("ListObjectsV2", 1, say(200, Vec::new(), &" ".repeat(9 << 20)));
    let failure = store.list("", false, None).unwrap_err();
    assert!(failure.cause.contains("more than 8388608 bytes"), "{failure}");
    fake.fail("ListObjectsV2", 1, say(200, Vec::new(), "<html>Log in</html>"));
    let failure = store.list("", false, None).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Protocol, "{failure}");
}

#[test]
fn a_list_that_is_cut_is_asked_for_again() {
    let (fake, store) = fake();
    fake.put("k", b"");
    fake.fail("ListObjectsV2", 1, Fault::Cut(50));
    assert_eq!(store.list("", false, None).unwrap().objects.len(), 1);
}

#[test]
fn what_cannot_be_removed_stays_and_is_told() {
    let (fake, store) = fake();
    for key in ["a", "b", "c\u{1}"] {
        fake.put(key, b"");
    }
    let words = "<DeleteResult><Error><Key>b</Key><Code>AccessDenied</Code></Error></DeleteResult>";
    fake.fail("DeleteObjects", 1, say(200, Vec::new(), words));
    let staying = store.remove(&strings(&["a", "b", "..", "c\u{1}"])).unwrap();
    let kinds = staying.iter().map(|(key, failure)| (key.as_str(), failure.kind)).collect::<Vec<_>>();
    assert_eq!(kinds, [("..", FailureKind::Unsupported), ("b", FailureKind::Permission)]);
    // XML cannot say this key.
    assert_eq!(fake.asked_to("DeleteObject").len(), 1);
    // A store that removes only one at a time.
    fake.fail("DeleteObjects", 1, Fault::refuse(405, ""));
    assert!(store.remove(&strings(&["a"])).unwrap().is_empty());
    fake.fail("DeleteObjects", 1, Fault::refuse(501, "NotImplemented"));
    assert!(store.remove(&strings(&["a", "b", "gone"])).unwrap().is_empty());
    assert_eq!(fake.keys(), [""; 0]);
}

// Names and secrets.

#[test]
fn a_key_that_no_address_can_name_is_not_asked_for() {
    let (fake, store) = fake();
    for key in ["", ".", "..", "a/../b", "a/./b", "a/..", &"k".repeat(KEY_BYTES_MAX + 1)] {
        assert_eq!(store.head(key).unwrap_err().kind, FailureKind::Unsupported, "{key}");
        let put = store.put(key, b"", &About::default(), &If::Any);
        assert_eq!(put.unwrap_err().kind, FailureKind::Unsupported, "{key}");
    }
    assert!(fake.asked().is_empty());
}

#[test]
fn no_secret_is_in_an_error_a_name_or_debug() {
    let (fake, store) = fake();
    let echo = format!(
        "<Error><Code>SignatureDoesNotMatch</Code><Message>{SECRET} {TOKEN} \
         /bucket?X-Amz-Security-Token=t0k&amp;X-Amz-Signature=5ec2e7</Message></Error>"
    );
    fake.fail("ListObjectsV2", 1, say(403, Vec::new(), &echo));
    let refused = store.list("", false, None).unwrap_err();
    fake.fail("ListObjectsV2", 1000, Fault::HangUp);
    let silent = store.list("", false, None).unwrap_err();
    fake.put("k", b"content");
    let seen = seen(&store, "k");
    fake.fail("GetObject", 1000, Fault::Cut(0));
    let broken = read(&store, "k", &seen).unwrap_err();
    // They were sent.
    let signature = fake.asked()[0].query["X-Amz-Signature"].clone();
    assert_eq!(fake.asked()[0].query["X-Amz-Security-Token"], TOKEN);
    assert!(!signature.is_empty());
    for failure in [refused, silent, broken] {
        let words = format!("{failure} {failure:?} {store:?} {}", store.name());
        for secret in [SECRET, TOKEN, "X-Amz", &signature, "5ec2e7"] {
            assert!(!words.contains(secret), "{words}");
        }
    }
}

#[test]
fn who_is_anonymous_signs_nothing() {
    let fake = Fake::start().unwrap();
    fake.put("a b", b"content");
    let options = Options { anonymous: true, ..fake.options() };
    let store = Store::open(&fake.location(""), &options, &fake.surroundings(PATIENCE)).unwrap();
    assert_eq!(store.list("a ", false, None).unwrap().objects.len(), 1);
    assert!(read(&store, "a b", &seen(&store, "a b")).is_ok());
    assert!(fake.asked().iter().all(|asked| !asked.query.contains_key("X-Amz-Signature")));
}

#[test]
fn a_bucket_is_named_with_its_store() {
    let (fake, store) = fake();
    let endpoint = fake.options().endpoint.unwrap();
    assert_eq!(store.name(), format!("s3://{BUCKET} ({endpoint})"));
}

// A store that is away.

#[test]
fn a_store_that_was_silent_for_one_patience_is_asked_once_by_the_others_until_it_answers() {
    let (fake, store) = fake();
    fake.put("k", b"x");
    fake.fail("HeadObject", usize::MAX, Fault::HangUp);
    fake.fail("HeadBucket", usize::MAX, Fault::HangUp);
    assert_eq!(store.lost(), None);
    let failure = store.head("k").unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection, "{failure}");
    assert_eq!(store.lost().unwrap().cause, failure.cause);
    let (asked, paused) = (fake.asked().len(), fake.paused());
    assert_eq!(store.head("k").unwrap_err().kind, FailureKind::Connection);
    assert_eq!((fake.asked().len(), fake.paused()), (asked + 1, paused));
    // A refusal is an answer, too.
    fake.fail("GetObject", 1, Fault::refuse(403, "AccessDenied"));
    let seen = Seen { size: 1, etag: String::new(), modified: Time::default(), storage_class: None };
    assert_eq!(read(&store, "k", &seen).unwrap_err().kind, FailureKind::Permission);
    assert_eq!(store.lost(), None);
}

#[test]
fn a_store_that_fails_for_one_key_only_is_not_lost() {
    let (fake, store) = fake();
    fake.fail("HeadObject", usize::MAX, Fault::refuse(503, "SlowDown"));
    // Nobody else asks: the bucket is there.
    assert_eq!(store.head("k").unwrap_err().kind, FailureKind::Connection);
    assert_eq!((store.lost(), fake.asked_to("HeadBucket").len()), (None, 1));
    // A refusal says so, too; a failure does not, until somebody is answered.
    for (status, is_lost) in [(403, false), (503, true)] {
        fake.fail("HeadBucket", 1, Fault::refuse(status, ""));
        assert_eq!(store.head("k").unwrap_err().kind, FailureKind::Connection);
        assert_eq!(store.lost().is_some(), is_lost, "{status}");
    }
    // Somebody else is answered while this one waits.
    let (asked, surroundings) = (Arc::new(Mutex::new(None::<Arc<Store>>)), fake.surroundings(PATIENCE));
    let (inner, asks) = (surroundings.pause.clone(), asked.clone());
    let pause = move |wait: Duration| {
        inner(wait);
        if let Some(store) = &*lock(&asks) {
            store.list("", false, None).unwrap();
        }
    };
    let surroundings = Surroundings { pause: Arc::new(pause), ..surroundings };
    drop(store);
    let store = Arc::new(Store::open(&fake.location(""), &fake.options(), &surroundings).unwrap());
    *lock(&asked) = Some(store.clone());
    let before = fake.asked_to("HeadBucket").len();
    assert_eq!(store.head("k").unwrap_err().kind, FailureKind::Connection);
    assert_eq!((store.lost(), fake.asked_to("HeadBucket").len()), (None, before));
    lock(&asked).take();
}

#[test]
fn a_store_that_was_given_up_is_neither_waited_for_nor_asked() {
    let (fake, store) = fake();
    fake.put("k", b"content");
    let seen = seen(&store, "k");
    fake.fail("ListObjectsV2", usize::MAX, Fault::refuse(503, "SlowDown"));
    store.give_up();
    let before = fake.asked().len();
    assert_eq!(store.list("", false, None).unwrap_err().kind, FailureKind::Connection);
    assert_eq!(read(&store, "k", &seen).unwrap_err().kind, FailureKind::Connection);
    assert_eq!((fake.asked().len(), fake.paused()), (before, Duration::ZERO));
}

#[test]
fn who_waits_to_ask_again_waits_no_more_when_the_store_is_given_up() {
    let fake = Fake::start().unwrap();
    fake.fail("ListObjectsV2", usize::MAX, Fault::refuse(503, "SlowDown"));
    // Real pauses, of a patience that no test has.
    let day = Duration::from_secs(24 * 3600);
    let Surroundings { pause, end_pauses, .. } = Surroundings::of_process(day, 7);
    let (begins, begun) = std::sync::mpsc::channel();
    let pause = move |wait: Duration| {
        let _ = begins.send(());
        pause(wait);
    };
    let surroundings = Surroundings { pause: Arc::new(pause), end_pauses, ..fake.surroundings(day) };
    let store = Store::open(&fake.location(""), &fake.options(), &surroundings).unwrap();
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| store.list("", false, None).unwrap_err().kind);
        begun.recv().unwrap();
        store.give_up();
        assert_eq!(asks.join().unwrap(), FailureKind::Connection);
    });
}

#[test]
fn a_store_that_fails_for_each_key_costs_some_patiences_and_not_one_for_each() {
    let (fake, store) = fake();
    fake.fail("HeadObject", usize::MAX, Fault::refuse(500, "InternalError"));
    let fails = |key: &str| {
        let before = fake.paused();
        assert_eq!(store.head(key).unwrap_err().kind, FailureKind::Connection);
        fake.paused() - before
    };
    for key in ["a", "b", "c"] {
        assert!(fails(key) > PATIENCE / 2, "{key}");
        // It answers all the same: it is not lost, and this is another matter.
        store.list("", false, None).unwrap();
    }
    for key in ["d", "e", "f"] {
        assert_eq!((fails(key), store.lost()), (Duration::ZERO, None), "{key}");
    }
    // It is as before as soon as one is answered.
    fake.heal();
    assert_eq!(store.head("a").unwrap(), None);
    fake.fail("HeadObject", usize::MAX, Fault::refuse(500, "InternalError"));
    assert!(fails("a") > PATIENCE / 2);
}
