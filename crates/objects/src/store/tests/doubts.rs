//! What a store says is not what it has, or it does not say what it did.

use super::*;
use thalweg_mover::testing::Service;

/// A body in chunks, of which nobody says how long it is.
fn chunked(status: u16, range: Option<&str>, content: &[u8]) -> Fault {
    let mut headers = vec![("transfer-encoding", "chunked".to_owned())];
    headers.extend(range.map(|range| ("content-range", range.to_owned())));
    let content = String::from_utf8(content.to_vec()).unwrap();
    say(status, headers, &format!("{:x}\r\n{content}\r\n0\r\n\r\n", content.len()))
}

// Reading.

#[test]
fn a_body_of_which_no_length_is_told_ends_where_the_object_did() {
    let (fake, store) = fake();
    fake.put("k", b"content");
    let seen = seen(&store, "k");
    fake.fail("GetObject", 1, chunked(200, None, b"content"));
    assert_eq!(read(&store, "k", &seen).unwrap(), b"content");
    // It was replaced by a longer one, which begins as it did.
    fake.fail("GetObject", 1, chunked(200, None, b"content and more"));
    assert_eq!(read(&store, "k", &seen).unwrap_err().kind, FailureKind::Changed);
    fake.fail("GetObject", 1, chunked(206, Some("bytes 0-6/7"), b"content and more"));
    assert_eq!(read(&store, "k", &seen).unwrap_err().kind, FailureKind::Changed);
    let headers = vec![("content-range", "bytes 0-6/7".to_owned())];
    fake.fail("GetObject", 1, say(206, headers, "content and more"));
    assert_eq!(read(&store, "k", &seen).unwrap_err().kind, FailureKind::Protocol);
}

#[test]
fn a_small_object_that_breaks_off_is_asked_for_anew_from_its_beginning() {
    let (fake, store) = fake();
    let bytes = content(1000);
    fake.put("k", &bytes);
    fake.fail("GetObject", 1, Fault::Cut(100));
    assert_eq!(store.fetch("k", 1000).unwrap().unwrap().1, Some(bytes));
    let ranges = numbers(&fake.asked_to("GetObject"), "range");
    assert_eq!((ranges.len(), ranges.iter().flatten().count()), (2, 0));
    // Nobody says how long it is: then it is only looked at.
    fake.fail("GetObject", 1, chunked(200, None, b"content"));
    let (head, content) = store.fetch("k", 1000).unwrap().unwrap();
    assert_eq!((head.seen.size, content), (1000, None));
    fake.fail("GetObject", 1000, Fault::Cut(0));
    let failure = store.fetch("k", 1000).unwrap_err();
    assert_eq!((failure.kind, failure.range), (FailureKind::Connection, Some((0, 1000))));
    assert!(fake.paused() <= PATIENCE);
}

#[test]
fn a_version_without_a_name_is_known_by_its_time() {
    let (fake, store) = fake();
    fake.put("k", b"content");
    let seen = Seen { etag: String::new(), ..seen(&store, "k") };
    assert_eq!(read(&store, "k", &seen).unwrap(), b"content");
    // A store that shows whole seconds may have parts of one, by which it was written later than it shows.
    let shown = crate::answers::http_time_words(seen.modified.seconds + 1);
    assert_eq!(fake.asked_to("GetObject")[0].header("if-unmodified-since"), shown.as_deref());
    let before = Seen { modified: Time { seconds: seen.modified.seconds - 1, nanos: 0 }, ..seen };
    assert_eq!(read(&store, "k", &before).unwrap_err().kind, FailureKind::Changed);
}

// Writing.

#[test]
fn a_success_that_names_no_version_is_looked_at() {
    let (fake, store) = fake();
    fake.fail("PutObject", 1, Fault::Anonymous);
    let put = store.put("k", b"content", &About::default(), &If::Any).unwrap();
    assert_eq!(put, seen(&store, "k"));
    // Whatever is between says that all went well.
    fake.fail("PutObject", 2, say(200, Vec::new(), ""));
    let failure = store.put("nothing", b"content", &About::default(), &If::Any).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Protocol, "{failure}");
    fake.put("shorter", b"c");
    fake.fail("PutObject", 1, say(200, Vec::new(), ""));
    let failure = store.put("shorter", b"content", &About::default(), &If::Any).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Protocol, "{failure}");
}

#[test]
fn long_content_is_counted_on_its_way_and_arrives_with_its_length() {
    let (fake, store) = fake();
    let bytes = content(1 << 20);
    store.put("k", &bytes, &About::default(), &If::Any).unwrap();
    assert!(store.moved() > 1);
    assert!(fake.content("k") == Some(bytes));
    let asked = fake.asked_to("PutObject");
    assert_eq!((asked[0].content_bytes, asked[0].header("transfer-encoding")), (1 << 20, None));
    // Once more, after an answer that was lost.
    let (before, bytes) = (store.moved(), content(2 << 20));
    fake.fail("PutObject", 1, Fault::Forget);
    store.put("k", &bytes, &About::default(), &If::Any).unwrap();
    assert!(store.moved() > before && fake.content("k") == Some(bytes));
}

#[test]
fn a_store_that_tells_no_crc_any_more_is_given_md5_and_a_condition_still_holds() {
    let (fake, store) = fake();
    store.put("k", b"content", &About::default(), &If::Any).unwrap();
    let upload = store.begin("whole", &About::default()).unwrap();
    store.put_part(&upload, 1, b"content").unwrap();
    fake.forget_crc64();
    store.put("new", b"content", &About::default(), &If::Absent).unwrap();
    assert_eq!(store.checks(), Checks::Md5);
    let asked = fake.asked_to("PutObject");
    assert_eq!((asked.len(), asked[2].header("content-md5").is_some()), (3, true));
    assert_eq!((asked[2].header("if-none-match"), asked[2].header("if-match").is_some()), (None, true));
    // Of parts it is learned by itself.
    store.put_part(&upload, 2, b"content").unwrap();
    let by_md5 = numbers(&fake.asked_to("UploadPart"), "content-md5");
    assert_eq!(by_md5.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn a_store_that_refuses_the_crc_later_is_asked_without_it() {
    let (fake, store) = fake();
    store.put("k", b"content", &About::default(), &If::Any).unwrap();
    fake.fail("PutObject", 1, Fault::refuse(501, "NotImplemented"));
    store.put("k", b"content", &About::default(), &If::Any).unwrap();
    assert_eq!(store.checks(), Checks::Md5);
    let upload = store.begin("whole", &About::default()).unwrap();
    let parts = [store.put_part(&upload, 1, b"content").unwrap()];
    fake.fail("CompleteMultipartUpload", 1, Fault::refuse(400, "InvalidRequest"));
    store.complete(&upload, &parts, &If::Absent).unwrap();
    let asked = fake.asked_to("CompleteMultipartUpload");
    let crcs = numbers(&asked, "x-amz-checksum-crc64nvme");
    assert_eq!((crcs[0].is_some(), &crcs[1..]), (true, &[None][..]));
}

#[test]
fn an_upload_whose_answer_was_lost_is_known_by_its_mark() {
    let (fake, store) = fake();
    fake.forget_crc64();
    let upload = store.begin("k", &About::default()).unwrap();
    let parts = [store.put_part(&upload, 1, b"content").unwrap()];
    fake.fail("CompleteMultipartUpload", 1, Fault::Forget);
    store.complete(&upload, &parts, &If::Absent).unwrap();
    // The same content under the same key, and somebody else's.
    let again = store.begin("k", &About::default()).unwrap();
    assert_ne!(upload.mark, again.mark);
    let parts = [store.put_part(&again, 1, b"content").unwrap()];
    fake.fail("CompleteMultipartUpload", 1, Fault::HangUp);
    let failure = store.complete(&again, &parts, &If::Absent).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Conflict, "{failure}");
}

#[test]
fn who_says_503_for_a_store_may_hide_a_success() {
    let (fake, store) = fake();
    fake.fail("PutObject", 1, Fault::Deny(503, ""));
    store.put("k", b"content", &About::default(), &If::Absent).unwrap();
    assert_eq!(fake.asked_to("PutObject").len(), 2);
}

#[test]
fn a_write_that_meets_one_that_is_not_over_is_asked_for_again() {
    let (fake, store) = fake();
    let upload = store.begin("whole", &About::default()).unwrap();
    let parts = [store.put_part(&upload, 1, b"content").unwrap()];
    for operation in ["PutObject", "CompleteMultipartUpload"] {
        fake.fail(operation, 1, Fault::refuse(409, "ConditionalRequestConflict"));
    }
    store.put("k", b"content", &About::default(), &If::Absent).unwrap();
    store.complete(&upload, &parts, &If::Absent).unwrap();
    assert_eq!(fake.keys(), ["k", "whole"]);
    // The one that was not over was ours.
    let upload = store.begin("ours", &About::default()).unwrap();
    let parts = [store.put_part(&upload, 1, b"content").unwrap()];
    fake.fail("CompleteMultipartUpload", 1, Fault::Deny(409, "ConditionalRequestConflict"));
    store.complete(&upload, &parts, &If::Absent).unwrap();
}

#[test]
fn an_object_that_is_complete_is_told_so_where_it_cannot_be_looked_at() {
    let (fake, store) = fake();
    let upload = store.begin("k", &About::default()).unwrap();
    let parts = [store.put_part(&upload, 1, b"content").unwrap()];
    fake.fail("HeadObject", usize::MAX, Fault::refuse(403, "AccessDenied"));
    let crc = crate::answers::crc64_words(parts[0].crc64.unwrap());
    let told = format!(
        "<CompleteMultipartUploadResult><ETag>e</ETag><ChecksumCRC64NVME>{crc}</ChecksumCRC64NVME>\
         </CompleteMultipartUploadResult>"
    );
    fake.fail("CompleteMultipartUpload", 1, say(200, Vec::new(), &told));
    assert_eq!(store.complete(&upload, &parts, &If::Any).unwrap().etag, "e");
    let failure = store.complete(&upload, &parts, &If::Any).unwrap_err();
    assert!(failure.cause.contains("the object is complete"), "{failure}");
}

#[test]
fn what_may_stand_damaged_and_is_not_removed_is_told() {
    let (fake, store) = fake();
    let upload = store.begin("k", &About::default()).unwrap();
    let parts = [store.put_part(&upload, 1, b"content").unwrap()];
    let crc = crate::answers::crc64_words(1);
    let told = format!(
        "<CompleteMultipartUploadResult><ChecksumCRC64NVME>{crc}</ChecksumCRC64NVME>\
         </CompleteMultipartUploadResult>"
    );
    // It names no version: what stands there is whose it may be.
    for (stands, is_told) in [(false, false), (true, true)] {
        if stands {
            fake.put("k", b"content");
        }
        fake.fail("CompleteMultipartUpload", 1, say(200, Vec::new(), &told));
        let failure = store.complete(&upload, &parts, &If::Any).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Damage, "{failure}");
        assert_eq!(failure.cause.contains("it could not be removed"), is_told, "{failure}");
    }
    assert_eq!(fake.keys(), ["k"]);
}

#[test]
fn an_object_that_is_gone_is_not_the_version_that_was_seen() {
    let (fake, store) = fake();
    let only = If::Is("x".to_owned());
    fake.fail("PutObject", 1, Fault::refuse(404, "NoSuchKey"));
    let failure = store.put("k", b"content", &About::default(), &only).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Conflict, "{failure}");
    let upload = store.begin("k", &About::default()).unwrap();
    let parts = [store.put_part(&upload, 1, b"content").unwrap()];
    fake.fail("CompleteMultipartUpload", 1, Fault::refuse(404, "NoSuchKey"));
    assert_eq!(store.complete(&upload, &parts, &only).unwrap_err().kind, FailureKind::Conflict);
}

#[test]
fn parts_and_uploads_come_in_pages_that_have_room_in_an_answer() {
    let (fake, store) = fake();
    let upload = store.begin("k", &About::default()).unwrap();
    store.parts(&upload).unwrap();
    store.uploads("k", None, 1000).unwrap();
    assert_eq!(fake.asked_to("ListParts")[0].query["max-parts"], "1000");
    assert_eq!(fake.asked_to("ListMultipartUploads")[0].query["max-uploads"], "1000");
}

#[test]
fn a_list_of_uploads_that_goes_on_and_on_with_none_in_it_is_given_up() {
    let (fake, store) = fake();
    store.begin("k", &About::default()).unwrap();
    let empty_page = |marker: usize| {
        let words = format!(
            "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>!{marker}</NextKeyMarker>\
             </ListMultipartUploadsResult>"
        );
        say(200, Vec::new(), &words)
    };
    // Each goes on elsewhere, and all of them before the first key.
    let empty_pages = |pages: usize| {
        (0..pages).for_each(|marker| fake.fail("ListMultipartUploads", 1, empty_page(marker)));
    };
    empty_pages(999);
    assert_eq!(store.uploads("", None, 1000).unwrap().0.len(), 1);
    empty_pages(1000);
    let failure = store.uploads("", None, 1000).unwrap_err();
    assert!(failure.cause.contains("with nothing new in it"), "{failure}");
}

// Removing.

#[test]
fn an_object_goes_only_as_the_version_that_was_seen_whatever_the_store_heeds() {
    for heeds in [true, false] {
        let (fake, store) = fake();
        if !heeds {
            fake.ignore_conditions_of_removals();
        }
        let [a, b, gone] = ["a", "b", "gone"].map(|key| {
            fake.put(key, b"old");
            seen(&store, key)
        });
        assert_eq!(store.remove_seen("a", &a).unwrap(), Removed::Ours);
        fake.put("b", b"somebody else's");
        assert_eq!(store.remove_seen("b", &b).unwrap(), Removed::Other);
        assert_eq!(fake.content("b").unwrap(), b"somebody else's");
        // One without a name is known by its size and time.
        let nameless = Seen { etag: String::new(), ..seen(&store, "b") };
        let shorter = Seen { size: 1, ..nameless.clone() };
        assert_eq!(store.remove_seen("b", &shorter).unwrap(), Removed::Other);
        assert_eq!(store.remove_seen("b", &nameless).unwrap(), Removed::Ours);
        let twice = [(); 2].map(|()| store.remove_seen("gone", &gone).unwrap());
        assert_eq!((twice, fake.keys().len()), ([Removed::Ours, Removed::Gone], 0));
        fake.put("last", b"x");
        assert_eq!(store.remove_seen("last", &seen(&store, "last")).unwrap(), Removed::Ours);
        // Until it is seen what the store makes of a condition: twice, if that is nothing.
        let asked = numbers(&fake.asked_to("DeleteObject"), "if-match");
        let trials = asked.iter().filter(|asked| asked.as_deref() == Some("\"0\"")).count();
        assert_eq!(trials, if heeds { 1 } else { 2 }, "{asked:?}");
        assert_eq!(asked.last().unwrap().is_some(), heeds, "{asked:?}");
    }
}

#[test]
fn a_removal_whose_answer_was_lost_is_one_and_a_condition_that_is_not_known_is_left_out() {
    let (fake, known) = fake();
    fake.put("first", b"x");
    assert_eq!(known.remove_seen("first", &seen(&known, "first")).unwrap(), Removed::Ours);
    for (key, fault) in [
        ("a", Fault::Deny(500, "InternalError")),
        ("b", Fault::Forget),
        ("c", Fault::refuse(501, "NotImplemented")),
        ("d", Fault::refuse(403, "AccessDenied")),
    ] {
        let fresh = fake.store().unwrap();
        let store = if matches!(key, "a" | "b") { &known } else { &fresh };
        fake.put(key, b"x");
        fake.fail("DeleteObject", 1, fault);
        assert_eq!(store.remove_seen(key, &seen(store, key)).unwrap(), Removed::Ours, "{key}");
    }
    assert_eq!(fake.keys(), [""; 0]);
    // What nobody may remove stays, and is told.
    fake.put("e", b"x");
    fake.fail("DeleteObject", usize::MAX, Fault::refuse(403, "AccessDenied"));
    assert_eq!(known.remove_seen("e", &seen(&known, "e")).unwrap_err().kind, FailureKind::Permission);
    assert_eq!(fake.keys(), ["e"]);
}

#[test]
fn a_removal_that_is_asked_for_again_does_not_take_what_was_put_meanwhile() {
    let fake = Arc::new(Fake::start().unwrap());
    fake.ignore_conditions_of_removals();
    let other = fake.clone();
    let pause = move |_: Duration| {
        other.put("k", b"somebody else's");
    };
    let surroundings = Surroundings { pause: Arc::new(pause), ..fake.surroundings(PATIENCE) };
    let store = Store::open(&fake.location(""), &fake.options(), &surroundings).unwrap();
    // Before it is known what the store makes of a condition, and then.
    for round in 0..2 {
        for fault in
            [Fault::Forget, Fault::Deny(500, "InternalError"), Fault::refuse(503, "SlowDown"), Fault::HangUp]
        {
            fake.put("k", b"old");
            let old = seen(&store, "k");
            fake.fail("DeleteObject", 1, fault.clone());
            assert_eq!(store.remove_seen("k", &old).unwrap(), Removed::Other, "{round} {fault:?}");
            assert_eq!(fake.content("k").unwrap(), b"somebody else's");
        }
        for key in ["a", "b"] {
            fake.put(key, b"x");
            assert_eq!(store.remove_seen(key, &seen(&store, key)).unwrap(), Removed::Ours);
        }
    }
    let conditions = numbers(&fake.asked_to("DeleteObject"), "if-match");
    assert_eq!(conditions.iter().filter(|asked| asked.is_some()).count(), 6, "{conditions:?}");
    // Nobody put anything, and the one whose answer was lost went by us.
    let quiet = fake.store().unwrap();
    fake.put("c", b"x");
    fake.fail("DeleteObject", 1, Fault::Forget);
    assert_eq!(quiet.remove_seen("c", &seen(&quiet, "c")).unwrap(), Removed::Ours);
    // One that fails for good is asked for no longer than the patience.
    fake.put("c", b"x");
    fake.fail("DeleteObject", usize::MAX, Fault::refuse(503, "SlowDown"));
    let failure = quiet.remove_seen("c", &seen(&quiet, "c")).unwrap_err();
    assert!(failure.kind == FailureKind::Connection && failure.cause.contains("times"), "{failure}");
    assert!(fake.paused() <= PATIENCE * 2 && quiet.lost().is_none());
}

#[test]
fn a_trial_that_finds_nothing_takes_nothing_that_was_not_looked_at() {
    for (status, code) in [(404, "NoSuchKey"), (409, "")] {
        let (fake, store) = fake();
        fake.put("k", b"x");
        let old = seen(&store, "k");
        fake.fail("DeleteObject", 1, Fault::refuse(status, code));
        assert_eq!(store.remove_seen("k", &old).unwrap(), Removed::Ours);
        // It was looked at again.
        let asked: Vec<&str> = fake.asked().iter().map(|asked| asked.operation).collect();
        let expected = ["HeadObject", "HeadObject", "DeleteObject", "HeadObject", "DeleteObject"];
        assert_eq!(asked, expected, "{status}");
    }
}

#[test]
fn the_same_content_of_another_time_stays_and_what_may_not_go_is_told_as_that() {
    let (fake, store) = fake();
    fake.put("k", b"x");
    let now = seen(&store, "k");
    let before = Time { seconds: now.modified.seconds - 2, nanos: 0 };
    for other in [Seen { modified: before, ..now.clone() }, Seen { size: 2, ..now.clone() }] {
        assert_eq!(store.remove_seen("k", &other).unwrap(), Removed::Other);
    }
    fake.put("first", b"x");
    store.remove_seen("first", &seen(&store, "first")).unwrap();
    fake.fail("DeleteObject", 1, Fault::refuse(409, "ObjectLocked"));
    let failure = store.remove_seen("k", &now).unwrap_err();
    assert!(failure.kind == FailureKind::Conflict && failure.cause.contains("ObjectLocked"), "{failure}");
    assert_eq!(fake.keys(), ["k"]);
}

// Credentials.

#[test]
fn credentials_that_are_not_to_be_had_for_a_while_are_waited_for() {
    let fake = Fake::start().unwrap();
    let asked = AtomicU64::new(0);
    let service = Service::start(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        1..=3 => (503, String::new()),
        hours => {
            let until = std::time::SystemTime::now() + Duration::from_secs((hours + 1) * 3600);
            let until = jiff::Timestamp::try_from(until).unwrap();
            let keys = format!("\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"{SECRET}\"");
            (200, format!("{{{keys},\"Token\":\"{TOKEN}\",\"Expiration\":\"{until}\"}}"))
        }
    });
    let url = service.url("/");
    let env = move |name: &str| match name {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI" => Some(url.clone()),
        "AWS_EC2_METADATA_DISABLED" => Some("true".to_owned()),
        _ => None,
    };
    let surroundings = Surroundings { env: Arc::new(env), ..fake.surroundings(PATIENCE) };
    let store = Store::open(&fake.location(""), &fake.options(), &surroundings).unwrap();
    store.list("", false, None).unwrap();
    (surroundings.pause)(Duration::from_secs(2 * 3600));
    store.list("", false, None).unwrap();
    assert!(service.asked().len() > 4);
}
