//! A store against one in memory that is told to fail. Nobody waits: pauses are added up.

use super::*;
use crate::testing::{Asked, BUCKET, Fake, Fault, REGION, SECRET, TOKEN};
use std::time::Duration;
use thalweg_mover::failure::Reason;

// Stores that say what is not so, or not what they did.
mod doubts;

// Objects on their way to who reads them.
mod reading;

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
