//! What stores answer: XML, errors, dates.
//!
//! Nothing of an answer is believed unless it is looked at here: lengths, numbers and names have bounds. What an answer
//! lacks is `None`; what it has and makes no sense is an error, in words.

use crate::answers::xml::Element;
use thalweg_wire::Time;

pub(crate) mod xml;

/// Bytes of a list: a thousand keys of 1024 bytes, each as `%XX`, and what is told of them.
pub const LIST_BYTES_MAX: usize = 8 << 20;
/// Bytes of any other answer in words.
pub const WORDS_BYTES_MAX: usize = 1 << 20;
/// Bytes of a version's name, and of a storage class: stores have some 40. Those of a hundred thousand objects are in
/// memory at once.
const NAME_BYTES_MAX: usize = 256;

/// Why an answer is not believed.
pub(crate) type Broken = String;

/// `<Error>`, wherever it stands.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// `NoSuchKey` and the like.
    pub code: String,
    /// For people.
    pub message: String,
    /// The region that it names.
    pub region: Option<String>,
}

/// The error that an answer is, if it is one.
pub(crate) fn refusal(text: &str) -> Option<Refusal> {
    // Most are none, and need not be read for that.
    if !text.contains("Error") {
        return None;
    }
    let root = xml::parse(text).ok()?;
    let error = match root.name {
        "Error" => &root,
        "ErrorResponse" => root.first("Error")?,
        _ => return None,
    };
    let words = |name| error.words_of(name).unwrap_or_default().trim().to_owned();
    Some(Refusal {
        code: words("Code"),
        message: words("Message"),
        region: error.words_of("Region").map(str::trim).filter(|region| is_region(region)).map(str::to_owned),
    })
}

/// Whether this may be the name of a region: it becomes part of a host's.
pub(crate) fn is_region(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=32).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// An object of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub key: String,
    pub size: u64,
    pub etag: String,
    pub modified: Time,
    pub storage_class: Option<String>,
}

/// ListObjectsV2.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ObjectList {
    pub objects: Vec<Object>,
    pub prefixes: Vec<String>,
    /// Where it goes on. `None`: it is complete.
    pub token: Option<String>,
}

/// Reads it.
///
/// # Errors
/// If it is none, or something in it makes no sense.
pub(crate) fn object_list(text: &str) -> Result<ObjectList, Broken> {
    let root = root(text, "ListBucketResult")?;
    let encoded = is_encoded(&root);
    let mut list = ObjectList::default();
    for content in root.all("Contents") {
        let key = name_of(content, "Key", encoded)?;
        let size = content.number_of("Size").ok_or_else(|| lacks("Size", &key))?;
        let modified = content.words_of("LastModified").and_then(time_of);
        list.objects.push(Object {
            size,
            etag: plain_etag(content.words_of("ETag").unwrap_or_default()),
            modified: modified.ok_or_else(|| lacks("LastModified", &key))?,
            storage_class: content.words_of("StorageClass").and_then(storage_class),
            key,
        });
    }
    for prefixes in root.all("CommonPrefixes") {
        list.prefixes.push(name_of(prefixes, "Prefix", encoded)?);
    }
    let truncated = root.words_of("IsTruncated").map(|words| words.trim() == "true");
    let token = root.words_of("NextContinuationToken").filter(|token| !token.is_empty());
    list.token = match (truncated, token) {
        (Some(false), _) | (None, None) => None,
        (_, Some(token)) => Some(token.to_owned()),
        (Some(true), None) => {
            return Err("there is more of it, and it does not say how to ask for that".to_owned());
        }
    };
    Ok(list)
}

/// A part of an upload, as a list tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedPart {
    pub number: u16,
    pub bytes: u64,
    pub etag: String,
    pub crc64: Option<u64>,
}

/// ListParts: the parts, and after which number it goes on.
///
/// # Errors
/// If it is none, or something in it makes no sense.
pub(crate) fn part_list(text: &str) -> Result<(Vec<ListedPart>, Option<u16>), Broken> {
    // Moto has another name for it.
    let root = root(text, "ListPartsResponse").or_else(|_| root(text, "ListPartsResult"))?;
    let mut parts = Vec::new();
    for part in root.all("Part") {
        let number = part.number_of("PartNumber").and_then(|number| u16::try_from(number).ok());
        parts.push(ListedPart {
            number: number.ok_or("a part has no number")?,
            bytes: part.number_of("Size").ok_or("a part has no size")?,
            etag: plain_etag(part.words_of("ETag").unwrap_or_default()),
            crc64: part.words_of("ChecksumCRC64NVME").and_then(crc64_of),
        });
    }
    let truncated = root.words_of("IsTruncated").is_some_and(|words| words.trim() == "true");
    let marker = root.number_of("NextPartNumberMarker").and_then(|number| u16::try_from(number).ok());
    match (truncated, marker) {
        (false, _) => Ok((parts, None)),
        (true, Some(marker)) => Ok((parts, Some(marker))),
        (true, None) => Err("there is more of it, and it does not say after which part".to_owned()),
    }
}

/// An upload that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedUpload {
    pub key: String,
    pub id: String,
    pub begun: Option<Time>,
}

/// What a page has, and after what the next one begins, if there is one.
type Listed<What, After> = (Vec<What>, Option<After>);

/// ListMultipartUploads: the uploads, and after which key and which upload of it it goes on.
///
/// # Errors
/// If it is none, or something in it makes no sense.
pub(crate) fn upload_list(text: &str) -> Result<Listed<ListedUpload, (String, String)>, Broken> {
    let root = root(text, "ListMultipartUploadsResult")?;
    let encoded = is_encoded(&root);
    let mut uploads = Vec::new();
    for upload in root.all("Upload") {
        let id = upload.words_of("UploadId").filter(|id| !id.is_empty());
        uploads.push(ListedUpload {
            key: name_of(upload, "Key", encoded)?,
            id: id.ok_or("an upload has no name")?.to_owned(),
            begun: upload.words_of("Initiated").and_then(time_of),
        });
    }
    if root.words_of("IsTruncated").is_none_or(|words| words.trim() != "true") {
        return Ok((uploads, None));
    }
    let key = name_of(&root, "NextKeyMarker", encoded)?;
    let id = root.words_of("NextUploadIdMarker").unwrap_or_default().to_owned();
    Ok((uploads, Some((key, id))))
}

/// CreateMultipartUpload: the upload's name.
///
/// # Errors
/// If it has none.
pub(crate) fn upload_id(text: &str) -> Result<String, Broken> {
    let root = root(text, "InitiateMultipartUploadResult")?;
    let id = root.words_of("UploadId").filter(|id| !id.is_empty());
    id.map(str::to_owned).ok_or_else(|| "the upload has no name".to_owned())
}

/// CompleteMultipartUpload: the object's version, and its checksum if the store tells it.
///
/// # Errors
/// If it is none.
pub(crate) fn completed(text: &str) -> Result<(String, Option<u64>), Broken> {
    let root = root(text, "CompleteMultipartUploadResult")?;
    let etag = plain_etag(root.words_of("ETag").unwrap_or_default());
    // Of parts' checksums it says nothing about the whole.
    let of_whole = root.words_of("ChecksumType").is_none_or(|words| words.trim() == "FULL_OBJECT");
    Ok((etag, root.words_of("ChecksumCRC64NVME").filter(|_| of_whole).and_then(crc64_of)))
}

/// DeleteObjects: what stays, with the store's code and words.
///
/// # Errors
/// If it is none.
pub(crate) fn not_removed(text: &str) -> Result<Vec<(String, Refusal)>, Broken> {
    let root = root(text, "DeleteResult")?;
    let errors = root.all("Error").map(|error| {
        let words = |name| error.words_of(name).unwrap_or_default().to_owned();
        (words("Key"), Refusal { code: words("Code"), message: words("Message"), region: None })
    });
    Ok(errors.collect())
}

fn root<'a>(text: &'a str, name: &'static str) -> Result<Element<'a>, Broken> {
    let root = xml::parse(text)?;
    if root.name != name {
        return Err(format!("it has no `{name}`"));
    }
    Ok(root)
}

fn lacks(what: &str, key: &str) -> Broken {
    let key = thalweg_mover::failure::shown_path(key.as_bytes());
    format!("the {what} of `{key}` is missing or makes no sense")
}

fn is_encoded(root: &Element<'_>) -> bool {
    root.words_of("EncodingType").is_some_and(|words| words.trim() == "url")
}

/// A key or what is made of keys.
fn name_of(element: &Element<'_>, name: &'static str, encoded: bool) -> Result<String, Broken> {
    let words = element.words_of(name).ok_or_else(|| format!("something in it has no {name}"))?;
    if !encoded {
        return Ok(words.to_owned());
    }
    unescape_key(words).ok_or_else(|| {
        let shown = thalweg_mover::failure::shown_path(words.as_bytes());
        format!("`{shown}` is no key in UTF-8, escaped for an address")
    })
}

/// `%XX` are bytes, `+` is a space: as forms have it, and as all stores answer.
fn unescape_key(words: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(words.len());
    let mut rest = words.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())?;
                bytes.push(*thalweg_wire::hex::unhex(digits)?.first()?);
                rest = &after[2..];
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// The version of an object without the quotes around it: stores put them in some answers and not in others. One that
/// is too long to be kept counts as none.
pub(crate) fn plain_etag(words: &str) -> String {
    let words = words.trim();
    let plain = words.strip_prefix('"').and_then(|words| words.strip_suffix('"')).unwrap_or(words);
    if plain.len() > NAME_BYTES_MAX { String::new() } else { plain.to_owned() }
}

/// How an object is kept, if that is said; what is too long to be kept counts as not said.
pub(crate) fn storage_class(words: &str) -> Option<String> {
    (1..=NAME_BYTES_MAX).contains(&words.len()).then(|| words.to_owned())
}

/// With them, as requests have it.
pub(crate) fn quoted_etag(etag: &str) -> String {
    if etag.starts_with("W/") { etag.to_owned() } else { format!("\"{etag}\"") }
}

/// A CRC64NVME as answers have it.
pub(crate) fn crc64_of(words: &str) -> Option<u64> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(words.trim()).ok()?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

/// As requests have it.
pub(crate) fn crc64_words(crc: u64) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(crc.to_be_bytes())
}

/// `2009-10-12T17:50:30.123Z`, as lists have it: to the nanosecond.
pub(crate) fn time_of(words: &str) -> Option<Time> {
    words.trim().parse::<jiff::Timestamp>().ok().map(time)
}

/// `Mon, 12 Oct 2009 17:50:30 GMT`, as heads of answers have it.
pub(crate) fn http_time_of(words: &str) -> Option<Time> {
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(words.trim()).ok().map(time)
}

/// As requests have it, to the second; `None` if no year of four digits has it.
pub(crate) fn http_time_words(seconds: i64) -> Option<String> {
    let timestamp = jiff::Timestamp::from_second(seconds).ok()?;
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&timestamp).ok()
}

fn time(timestamp: jiff::Timestamp) -> Time {
    let nanos = timestamp.as_nanosecond();
    // Both are within what these types hold: years have four digits.
    Time { seconds: nanos.div_euclid(1_000_000_000) as i64, nanos: nanos.rem_euclid(1_000_000_000) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NS: &str = "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";

    #[test]
    fn a_list_is_read_with_its_keys_decoded_and_its_times_exact() {
        let list = object_list(&format!(
            "<ListBucketResult {NS}><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>\
             <NextContinuationToken>t=+/</NextContinuationToken><Contents><Key>a%2Fb+c%2B%C3%A4</Key>\
             <LastModified>2009-10-12T17:50:30.123456789Z</LastModified><ETag>&quot;e&quot;</ETag>\
             <Size>434234</Size><StorageClass>STANDARD</StorageClass></Contents><CommonPrefixes>\
             <Prefix>p%20q/</Prefix></CommonPrefixes></ListBucketResult>"
        ))
        .unwrap();
        let object = Object {
            key: "a/b c+ä".to_owned(),
            size: 434_234,
            etag: "e".to_owned(),
            modified: Time { seconds: 1_255_369_830, nanos: 123_456_789 },
            storage_class: Some("STANDARD".to_owned()),
        };
        assert_eq!(list.objects, [object]);
        assert_eq!((list.prefixes, list.token), (vec!["p q/".to_owned()], Some("t=+/".to_owned())));
    }

    #[test]
    fn a_version_and_a_class_that_are_too_long_to_be_kept_count_as_not_told() {
        let longest = "e".repeat(NAME_BYTES_MAX);
        let read = |name: &str| {
            let list = object_list(&format!(
                "<ListBucketResult><Contents><Key>k</Key><LastModified>2009-10-12T17:50:30Z</LastModified>\
                 <ETag>&quot;{name}&quot;</ETag><Size>1</Size><StorageClass>{name}</StorageClass></Contents>\
                 </ListBucketResult>"
            ));
            let object = list.unwrap().objects.remove(0);
            (object.etag, object.storage_class)
        };
        assert_eq!(read(&longest), (longest.clone(), Some(longest.clone())));
        assert_eq!(read(&format!("{longest}e")), (String::new(), None));
    }

    #[test]
    fn a_list_that_is_not_encoded_is_read_as_it_is() {
        let list = object_list(
            "<ListBucketResult><Contents><Key>a+%41</Key><LastModified>2009-10-12T17:50:30Z</LastModified>\
             <Size>1</Size></Contents></ListBucketResult>",
        );
        assert_eq!(list.unwrap().objects[0].key, "a+%41");
    }

    #[test]
    fn a_list_that_makes_no_sense_is_refused_and_says_why() {
        for (text, words) in [
            ("<html></html>", "ListBucketResult"),
            ("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", "more"),
            ("<ListBucketResult><Contents><Key>k</Key><Size>-1</Size></Contents></ListBucketResult>", "Size"),
            (
                "<ListBucketResult><Contents><Key>k</Key><Size>1</Size></Contents></ListBucketResult>",
                "LastModified",
            ),
            ("<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>", "Key"),
            (
                "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%ff</Key></Contents>\
                 </ListBucketResult>",
                "UTF-8",
            ),
        ] {
            let broken = object_list(text).unwrap_err();
            assert!(broken.contains(words), "{broken}");
        }
    }

    #[test]
    fn an_error_is_found_with_its_region_and_a_region_that_is_no_name_is_not() {
        let text = |region: &str| {
            format!(
                "<Error><Code>PermanentRedirect</Code><Message>There.</Message><Region>{region}</Region></Error>"
            )
        };
        let found = refusal(&text("eu-west-1")).unwrap();
        assert_eq!((found.code.as_str(), found.region.as_deref()), ("PermanentRedirect", Some("eu-west-1")));
        for bad in ["", "evil.example/", "a b", "-a", &"a".repeat(33)] {
            assert_eq!(refusal(&text(bad)).unwrap().region, None, "{bad}");
        }
        assert_eq!(refusal("<CompleteMultipartUploadResult/>"), None);
    }

    #[test]
    fn times_are_read_exactly() {
        let of = |words| time_of(words).map(|time| (time.seconds, time.nanos));
        assert_eq!(of("1970-01-01T00:00:00.000Z"), Some((0, 0)));
        assert_eq!(of("1969-12-31T23:59:59.5Z"), Some((-1, 500_000_000)));
        assert_eq!(of("2024-02-29T12:00:00+00:00"), Some((1_709_208_000, 0)));
        assert_eq!((of("2023-02-29T12:00:00Z"), of("yesterday")), (None, None));
        let http = |words| http_time_of(words).map(|time| time.seconds);
        assert_eq!(http("Mon, 12 Oct 2009 17:50:30 GMT"), Some(1_255_369_830));
        assert_eq!(http("2009-10-12T17:50:30Z"), None);
    }

    #[test]
    fn parts_are_read_under_the_name_that_moto_has_for_their_list() {
        let part = "<Part><PartNumber>1</PartNumber><Size>5</Size><ETag>\"a\"</ETag></Part>";
        for root in ["ListPartsResult", "ListPartsResponse"] {
            let (parts, next) = part_list(&format!("<{root}>{part}</{root}>")).unwrap();
            assert_eq!((parts[0].number, parts[0].bytes, parts[0].etag.as_str(), next), (1, 5, "a", None));
        }
        assert!(part_list("<ListBucketResult></ListBucketResult>").unwrap_err().contains("ListPartsResult"));
    }

    #[test]
    fn checksums_and_versions_are_written_as_they_are_read() {
        assert_eq!(crc64_of(&crc64_words(0x0102_0304_0506_0708)), Some(0x0102_0304_0506_0708));
        assert_eq!((crc64_of("AAAA"), crc64_of("!")), (None, None));
        for (words, plain, quoted) in
            [("\"a\"", "a", "\"a\""), ("a", "a", "\"a\""), ("W/\"a\"", "W/\"a\"", "W/\"a\"")]
        {
            assert_eq!(
                (plain_etag(words).as_str(), quoted_etag(&plain_etag(words)).as_str()),
                (plain, quoted)
            );
        }
    }

    proptest! {
        #[test]
        fn noise_is_no_answer_and_never_a_panic(text in any::<String>(), root in 0..5) {
            let name = [
                "ListBucketResult",
                "ListPartsResult",
                "ListMultipartUploadsResult",
                "DeleteResult",
                "Error",
            ][root as usize];
            let text = format!("<{name}><EncodingType>url</EncodingType><Key>{text}</Key></{name}>");
            let _ = (object_list(&text), part_list(&text), upload_list(&text));
            let _ = (not_removed(&text), refusal(&text), upload_id(&text), completed(&text));
        }

        #[test]
        fn noise_is_no_time_and_never_a_panic(text in "[-+0-9TZ:. A-Za-z,]{0,40}") {
            let _ = (time_of(&text), http_time_of(&text), crc64_of(&text));
        }

        #[test]
        fn a_key_is_read_back_whatever_it_is(key in any::<String>()) {
            let escaped = key.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
            prop_assert_eq!(unescape_key(&escaped), Some(key));
        }
    }
}
