"""The bill of materials is well formed, and says what the linker and dpkg say."""

import hashlib
import json
import re

import pytest

from tests.kit.program import BINARY, ROOT
from tests.packaging.files import output, version

PACKAGE_KEYS = {"SPDXID", "name", "versionInfo", "downloadLocation", "filesAnalyzed", "licenseConcluded",
                "licenseDeclared", "copyrightText"}


@pytest.fixture(scope="module")
def document(sbom):
    return json.loads(sbom.read_text("utf-8"))


def test_document_has_what_spdx_requires(document):
    assert document["spdxVersion"] == "SPDX-2.3"
    assert document["dataLicense"] == "CC0-1.0"
    assert document["name"] == f"redrive-{version()}"
    assert re.fullmatch(r"https://[^#\s]+", document["documentNamespace"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["creationInfo"]["created"])
    assert all(re.match(r"(Tool|Organization|Person): ", who) for who in document["creationInfo"]["creators"])
    assert all(PACKAGE_KEYS <= set(package) for package in document["packages"])


def test_relations_are_between_elements_of_the_document(document):
    elements = [document, *document["packages"], *document["files"]]
    ids = [element["SPDXID"] for element in elements]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in ids)
    ends = {relation[end] for relation in document["relationships"] for end in ("spdxElementId", "relatedSpdxElement")}
    assert ends == set(ids)  # and nothing stands alone


def linked(document):
    names = {package["SPDXID"]: package["name"] for package in document["packages"]}
    return {names[relation["relatedSpdxElement"]] for relation in document["relationships"]
            if relation["relationshipType"] == "DYNAMIC_LINK"}


def test_linked_packages_are_those_of_the_libraries_that_the_program_names(document):
    wanted = set(re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", BINARY)))
    assert "libuv.so.1" in wanted
    for package in linked(document):
        files = {line.rpartition("/")[2] for line in output("dpkg-query", "--listfiles", package).splitlines()}
        assert wanted & files, f"{package} has none of these"
        wanted -= files
    assert wanted == set()


def test_versions_are_those_of_dpkg(document):
    listed = {(package["name"], package["versionInfo"]) for package in document["packages"] if package["name"] != "redrive"}
    names = [name for name, _ in listed]
    lines = output("dpkg-query", "--show", "--showformat=${Package} ${Version}\n", *names).splitlines()
    assert len(listed) > 20
    assert listed <= {tuple(line.split()) for line in lines}


def test_packages_to_build_with_are_listed(document):
    names = {package["SPDXID"]: package["name"] for package in document["packages"]}
    tools = {names[relation["spdxElementId"]] for relation in document["relationships"]
             if relation["relationshipType"] == "BUILD_DEPENDENCY_OF"}
    assert "meson" in tools
    assert tools <= set(output(ROOT / "tools" / "bootstrap", "--list", "build").split())


def test_hash_is_that_of_the_program(document):
    ((file,),) = [document["files"]]
    sums = {item["algorithm"]: item["checksumValue"] for item in file["checksums"]}
    assert sums["SHA256"] == hashlib.sha256(BINARY.read_bytes()).hexdigest()


def test_same_program_gives_the_same_bytes(sbom, tmp_path):
    output(ROOT / "tools" / "sbom", tmp_path / "again.json", BINARY)
    assert sbom.read_bytes() == (tmp_path / "again.json").read_bytes()
