//! An object is looked at and read, and what breaks off on its way.

use super::*;

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
