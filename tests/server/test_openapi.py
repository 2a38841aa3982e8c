"""docs/openapi.yaml says what the server does, and what its tables say of themselves."""

import json
import re

import pytest
import yaml

from tests.kit.program import BINARY, ROOT, Program
from tests.kit.tokens import token_line

DOCUMENT = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text())
METHODS = ("get", "post", "put", "patch", "delete")
OPERATIONS = [
    (method, path, item[method]) for path, item in DOCUMENT["paths"].items() for method in METHODS if method in item
]
SCOPES = ("enqueue", "work", "read", "admin")


# What a kind of field is in the document.
TYPES = {
    "string": "string",
    "choice": "string",
    "choices": "array",
    "int": "integer",
    "double": "number",
    "flag": "boolean",
    "duration": "string",
    "fingerprint": "string",
}


def schema(name):
    return DOCUMENT["components"]["schemas"][name]


def filled(path):
    return re.sub(r"\{\w+\}", "some", path)


def scope_of(operation):
    """The scope that an operation names; None: it is for every client."""
    return next((scope for requirement in operation["security"] for scope in requirement), None)


def references(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for item in node:
            yield from references(item)


def resolved(node):
    """The node that a reference leads to, or the node itself."""
    if "$ref" not in node:
        return node
    found = DOCUMENT
    for name in node["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return resolved(found)


@pytest.fixture(scope="module")
def routes():
    """What the tables of the program say of each route, by method and path."""
    told = json.loads(Program(BINARY).output("help", "http-routes", "--json"))["routes"]
    by_name = {(route["method"].lower(), route["path"].removeprefix("/v1")): route for route in told}
    assert len(by_name) == len(told)
    return by_name


def choices(said):
    return resolved(said.get("items", said)).get("enum")


def check_parameter(route, parameter):
    """A schema cannot have the bounds of a duration. Defaults that only the code of a route knows are left to the document."""
    said = resolved(parameter["schema"])
    row = next(row for row in route["parameters"] if row["name"] == parameter["name"])
    where = (route["method"], route["path"], row["name"])
    assert said["type"] == TYPES[row["type"]], where
    assert choices(said) == row.get("choices"), where
    assert parameter.get("required", False) == row.get("required", False), where
    if row["type"] in ("int", "double"):
        assert (said.get("minimum"), said.get("maximum")) == (row.get("min"), row.get("max")), where
    if "default" in row:
        assert str(said["default"]) == row["default"], where


def test_every_route_is_documented_and_no_other(routes):
    assert {(method, path) for method, path, _ in OPERATIONS} == set(routes)


def test_summaries_and_scopes_are_those_of_the_routes(routes):
    for method, path, operation in OPERATIONS:
        route = routes[method, path]
        assert (operation["summary"], scope_of(operation)) == (route["summary"], route["scope"]), (method, path)


def test_parameters_of_queries_are_those_of_the_routes(routes):
    for method, path, operation in OPERATIONS:
        route = routes[method, path]
        query = [said for said in map(resolved, operation.get("parameters", [])) if said["in"] == "query"]
        assert sorted(said["name"] for said in query) == sorted(row["name"] for row in route["parameters"]), route
        for parameter in query:
            check_parameter(route, parameter)


def test_members_of_bodies_are_those_that_the_routes_tell(routes):
    told = {name: route["body"] for name, route in routes.items() if route["body"]}
    assert {("post", "/jobs"), ("post", "/bulk"), ("patch", "/retry/dead-letters/{id}")} <= set(told)
    for (method, path), rows in told.items():
        body = DOCUMENT["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
        [one, *_] = body.get("oneOf", [body])  # new jobs may be an array, too
        members = resolved(one)["properties"]
        assert sorted(members) == sorted(row["name"] for row in rows), (method, path)
        for row in rows:
            said = members[row["name"]]
            assert choices(said) == row.get("choices"), (method, path, row["name"])
            if row["type"] == "int":
                assert (said.get("minimum"), said.get("maximum")) == (row.get("min"), row.get("max")), (method, path, row["name"])


def test_every_reference_leads_somewhere_and_every_component_is_used():
    used = set(references(DOCUMENT))
    kinds = ("schemas", "responses", "parameters", "headers")
    there = {f"#/components/{kind}/{name}" for kind in kinds for name in DOCUMENT["components"][kind]}
    assert used == there


def test_every_operation_has_a_name_of_its_own():
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(names)) == len(names) > 35
    assert all(re.fullmatch(r"[a-z]+[A-Za-z]+", name) for name in names)


def test_every_operation_has_its_error_answers():
    for method, path, operation in OPERATIONS:
        expected = {"400", "403"}
        if scope_of(operation):
            expected |= {"401", "503"}
            if method != "get":
                expected.add("413")
        assert expected <= set(operation["responses"]), (method, path)
        for parameter in re.findall(r"\{(\w+)\}", path):
            named = [p.get("name") or p["$ref"].rsplit("/", 1)[1] for p in operation["parameters"]]
            assert any(parameter in name.lower() for name in named), (method, path)


def test_v1_is_the_documented_form_and_the_other_one_means_the_same(api):
    assert [server["url"] for server in DOCUMENT["servers"]] == ["/v1", "/"]
    for path in DOCUMENT["paths"]:
        assert api("OPTIONS", "/v1" + filled(path)).headers["Allow"] == api("OPTIONS", filled(path)).headers["Allow"]


def test_allow_has_the_documented_methods_and_no_other(api):
    for path, item in DOCUMENT["paths"].items():
        expected = {method.upper() for method in METHODS if method in item} | {"OPTIONS"}
        if "get" in item:
            expected.add("HEAD")
        for method in ("OPTIONS", "BREW"):
            answer = api(method, "/v1" + filled(path))
            assert answer.status == (204 if method == "OPTIONS" else 405), path
            assert set(answer.headers["Allow"].split(", ")) == expected, path


@pytest.fixture
def guarded(start):
    """A server with a token for each scope."""
    lines = "".join(token_line(scope, scope, "red") for scope in SCOPES)
    return start("tokens:\n" + lines).api


def test_every_operation_names_the_scope_that_it_needs(guarded):
    assert set(DOCUMENT["components"]["securitySchemes"]) == set(SCOPES)
    for method, path, operation in OPERATIONS:
        scope = scope_of(operation)
        asked = (method.upper(), "/v1" + filled(path))
        if scope is None:
            assert guarded(*asked).status == 200, asked
            continue
        assert guarded(*asked).status == 401, asked
        for another in [name for one in operation["security"][1:] for name in one]:
            assert guarded.of(another)(*asked).status != 403, asked
        for other in SCOPES:
            if any(other in one for one in operation["security"]):
                continue
            refusal = guarded.of(other)(*asked)
            assert refusal.status == 403, asked
            assert f'scope="{scope}"' in refusal.headers["WWW-Authenticate"], asked


def test_without_tokens_what_comes_from_elsewhere_is_refused_everywhere(api):
    for method, path, _ in OPERATIONS:
        asked = (method.upper(), "/v1" + filled(path))
        assert api(*asked, headers={"X-Forwarded-For": "10.0.0.1"}).status == 403, asked
        assert api(*asked, headers={"Host": "queue.example"}).status == 403, asked


def test_texts_that_may_not_be_empty_say_so(api):
    def refused(path, body):
        return api("POST", path, body).status == 400

    for name, said in schema("NewJob")["properties"].items():
        if said.get("type") == "string":
            assert refused("/v1/jobs", {"task": "mail", "unique_key": "k", name: ""}), name
            assert said.get("minLength") == 1 or "enum" in said or "format" in said, name
    for name, said in schema("Claim")["properties"].items():
        if said.get("type") == "string":
            assert refused("/v1/claim", {name: ""}) and said["minLength"] == 1, name
        elif said.get("type") == "array":
            assert refused("/v1/claim", {name: [""]}) and said["items"]["minLength"] == 1, name
    for said in DOCUMENT["components"]["parameters"].values():
        if said["in"] == "query" and said["schema"]["type"] in ("string", "array"):
            assert api("GET", "/v1/jobs", **{said["name"]: ""}).status == 400, said["name"]
            assert said["schema"].keys() & {"minLength", "minItems", "enum", "pattern"}, said["name"]


def test_the_answers_to_a_submit_can_be_told_apart(api):
    """Of each oneOf the one form requires what the other form does not have."""
    said = DOCUMENT["paths"]["/jobs"]["post"]["responses"]["201"]["content"]["application/json"]["schema"]
    one, many = (schema(ref.rsplit("/", 1)[1]) for ref in references(said))
    assert not set(one["required"]) & set(many["properties"]) and not set(many["required"]) & set(one["properties"])
    assert set(api.ok("POST", "/v1/jobs", {"task": "mail"}, status=201)) == set(one["required"])
    assert set(api.ok("POST", "/v1/jobs", [{"task": "mail"}], status=201)) == set(many["required"])


def test_what_is_too_large_is_413_as_documented(api):
    announced = {"Content-Length": str(8 * 1024 * 1024 + 1), "Expect": "100-continue"}
    for method, path, operation in OPERATIONS:
        if method != "get" and scope_of(operation):
            assert api(method.upper(), "/v1" + filled(path), headers=announced).status == 413, (method, path)
