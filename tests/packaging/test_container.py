"""The Containerfile and compose.yaml name files, packages, commands and ports that exist."""

import json
import re
import shlex
import subprocess

import pytest
import yaml

from tests.kit import servers
from tests.kit.program import BINARY, ROOT
from tests.kit.stores import start_or_skip
from tests.kit.waiting import wait_for
from tests.packaging.files import PACKAGING, is_a_command, output
from tests.packaging.serving import Serving, Working

COMPOSE = yaml.safe_load((PACKAGING / "compose.yaml").read_text("utf-8"))
SERVICES = COMPOSE["services"]


# ---- Containerfile -------------------------------------------------------------------------------


def stages():
    """The instructions of each stage, as (name, rest)."""
    text = re.sub(r"^#.*\n", "", (PACKAGING / "Containerfile").read_text("utf-8"), flags=re.M).replace("\\\n", " ")
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, rest = line.split(None, 1)
        if name == "FROM":
            found.append([])
        found[-1].append((name, rest))
    return found


BUILD, FINAL = stages()


def all_of(stage, name):
    return [rest for instruction, rest in stage if instruction == name]


def one_of(stage, name):
    (rest,) = all_of(stage, name)
    return rest


def copied(stage):
    """What comes from the source tree."""
    return [word for rest in all_of(stage, "COPY") if "--from=" not in rest for word in rest.split()[:-1]]


def test_copied_files_exist():
    assert [name for name in copied(BUILD) + copied(FINAL) if not (ROOT / name).exists()] == []


def test_every_folder_that_meson_reads_is_copied():
    folders = re.findall(r"^subdir\('(\w+)'\)", (ROOT / "meson.build").read_text("utf-8"), re.M)
    assert "src" in folders
    assert set(folders) <= set(copied(BUILD))


def test_image_has_the_libraries_of_the_program_and_no_others(sbom):
    document = json.loads(sbom.read_text("utf-8"))
    linked = {relation["relatedSpdxElement"].removeprefix("SPDXRef-Package-") for relation in document["relationships"]
              if relation["relationshipType"] == "DYNAMIC_LINK"}
    words = shlex.split(re.search(r"apt-get install(.*?)&&", one_of(FINAL, "RUN")).group(1))
    packages = {word for word in words if not word.startswith("--")}
    assert packages == linked - {"libc6"} | {"ca-certificates", "tzdata"}


def test_image_starts_commands_that_exist():
    assert is_a_command(json.loads(one_of(FINAL, "CMD")))
    assert is_a_command(json.loads(one_of(FINAL, "HEALTHCHECK").partition(" CMD ")[2]))
    assert not is_a_command(["redrive", "serve", "--no-such-option"])


def test_image_is_not_run_by_root_and_names_its_user_once():
    uid = one_of(FINAL, "USER").partition(":")[0]
    assert int(uid) > 0
    assert f"--uid {uid} " in one_of(FINAL, "RUN")
    assert f"runAsUser: {uid}" in (ROOT / "docs" / "kubernetes.md").read_text("utf-8")


def test_image_exposes_the_ports_of_its_configuration():
    listen = yaml.safe_load((PACKAGING / "redrive.yaml").read_text("utf-8"))["listen"]
    assert one_of(FINAL, "EXPOSE").split() == [listen[name].rpartition(":")[2] for name in ("http", "faktory")]
    defaults = output(BINARY, "help", "config-flags")
    assert all(address in re.sub(r"\s+", " ", defaults) for address in listen.values())


def test_configuration_of_the_packages_is_valid():
    output(BINARY, "config", "check", "--config", PACKAGING / "redrive.yaml")


# ---- compose.yaml --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    """What packaging/prepare makes."""
    folder = tmp_path_factory.mktemp("compose") / "private"
    output(PACKAGING / "prepare", folder)
    return folder


def mounts():
    """(service, host's path, path in the container) of files of the host; volumes have no slash in their name."""
    return [(name, *mount.split(":")[:2]) for name, service in SERVICES.items() for mount in service.get("volumes", [])
            if mount.startswith(".")]


def host_path(name, private):
    path = name.removeprefix("./")
    return private / path.removeprefix("private/") if path.startswith("private/") else PACKAGING / path


def test_mounted_files_exist(private):
    assert {service for service, _, _ in mounts()} == {"redrive", "worker", "prometheus", "grafana"}
    assert [source for _, source, _ in mounts() if not host_path(source, private).exists()] == []


def test_files_of_variables_exist(private):
    names = [name for service in SERVICES.values() for name in service.get("env_file", [])]
    assert len(names) == 4
    assert SERVICES["worker"]["env_file"] == SERVICES["redrive"]["env_file"]  # the same store
    assert [name for name in names if not host_path(name, private).is_file()] == []


def test_volumes_and_services_that_are_named_exist():
    named = {mount.partition(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])
             if not mount.startswith(".")}
    assert named == set(COMPOSE["volumes"])
    assert {other for service in SERVICES.values() for other in service.get("depends_on", {})} <= set(SERVICES)


@pytest.mark.parametrize("service", ["redrive", "worker"])
def test_build_names_the_containerfile(service):
    build = SERVICES[service]["build"]
    context = (PACKAGING / build["context"]).resolve()
    assert context == ROOT
    assert (context / build["dockerfile"]).is_file()


@pytest.mark.parametrize("service", ["redrive", "worker"])
def test_program_is_started_with_options_that_exist_and_is_not_killed_before_its_grace_is_over(service):
    words = SERVICES[service]["command"]
    assert is_a_command(words)
    grace = int(words[words.index("--grace") + 1].removesuffix("s"))
    assert grace < int(SERVICES[service]["stop_grace_period"].removesuffix("s"))


def test_ports_are_published_on_loopback_and_images_have_a_version():
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)
    tags = [service["image"].partition(":")[2] for service in SERVICES.values()]
    assert all(tag not in ("", "latest") for tag in tags)


def test_prometheus_asks_the_address_on_which_the_server_listens(private):
    config = yaml.safe_load((PACKAGING / "compose" / "prometheus.yaml").read_text("utf-8"))
    inside = {path for service, _, path in mounts() if service == "prometheus"}
    assert {*config["rule_files"], config["scrape_configs"][0]["authorization"]["credentials_file"]} <= inside
    port = yaml.safe_load((private / "etc" / "redrive.yaml").read_text("utf-8"))["listen"]["http"].rpartition(":")[2]
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"redrive:{port}"]}]
    assert SERVICES["redrive"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    (workers,) = job["dns_sd_configs"]
    words = SERVICES["worker"]["command"]
    assert set(workers["names"]) <= set(SERVICES)
    assert str(workers["port"]) == words[words.index("--metrics") + 1].rpartition(":")[2]
    # The alert rules and the dashboard take one job of Prometheus for one store.
    assert f'job="{job["job_name"]}"' in (ROOT / "docs" / "prometheus" / "redrive.rules.yaml").read_text("utf-8")


def test_grafana_finds_prometheus_and_the_dashboard():
    (source,) = yaml.safe_load((PACKAGING / "compose" / "grafana-datasources.yaml").read_text("utf-8"))["datasources"]
    assert re.fullmatch(r"http://(\w+):9090", source["url"]).group(1) in SERVICES
    (provider,) = yaml.safe_load((PACKAGING / "compose" / "grafana-dashboards.yaml").read_text("utf-8"))["providers"]
    assert f"{provider['options']['path']}/redrive.json" in {path for service, _, path in mounts() if service == "grafana"}


# ---- prepare -------------------------------------------------------------------------------------


def test_secrets_are_made_once_and_other_users_cannot_reach_them(private):
    before = {path: path.read_bytes() for path in private.rglob("*") if path.is_file()}
    assert private.stat().st_mode & 0o777 == 0o700
    output(PACKAGING / "prepare", private, stderr=subprocess.DEVNULL)
    assert before == {path: path.read_bytes() for path in private.rglob("*") if path.is_file()}
    secrets = [line for text in before.values() for line in re.findall(rb"\b[0-9a-f]{64}\b", text)]
    assert len(secrets) == 7  # two tokens and their hashes, the password of PostgreSQL twice, that of Grafana
    assert len(set(secrets)) == 6


def test_passwords_of_the_store_agree(private):
    variables = dict(line.split("=", 1) for name in ("redrive.env", "postgres.env")
                     for line in (private / name).read_text("utf-8").splitlines())
    url = "postgres://{POSTGRES_USER}:{POSTGRES_PASSWORD}@postgres/{POSTGRES_DB}"
    assert variables["REDRIVE_STORE"] == url.format(**variables)


def test_server_takes_the_token_of_prometheus(private, tmp_path):
    with Serving(tmp_path, "--config", private / "etc" / "redrive.yaml") as server:
        token = (private / "prometheus-token").read_text("utf-8")
        status, text = server.get("/metrics", token)
        assert (status, "redrive_build_info" in text) == (200, True)
        assert server.get("/metrics")[0] == 401
        assert server.get("/health")[0] == 200


@pytest.mark.parametrize("kind", [servers.Postgres, servers.Redis])
def test_worker_runs_the_jobs_that_the_server_takes(kind, private, tmp_path):
    def options(service):
        words = SERVICES[service]["command"][2:]
        return words[:words.index("--metrics")] if "--metrics" in words else words

    token, prometheus = ((private / name).read_text("utf-8") for name in ("admin-token", "prometheus-token"))
    config = ["--config", private / "etc" / "redrive.yaml"]
    with start_or_skip(kind) as server, Serving(tmp_path, *config, *options("redrive"), store=server.url) as serve:
        status, text = serve.send("POST", "/v1/jobs", {"task": "echo", "payload": {"n": 1}}, token)
        assert status == 201, text
        job = json.loads(text)["id"]
        with Working(tmp_path, *config, *options("worker"), store=server.url) as worker:
            ended = wait_for(lambda: (found := json.loads(serve.get(f"/v1/jobs/{job}", token)[1]))["state"] == "completed" and found,
                             "the job has ended")
            assert ended["result"] == {"n": 1}
            assert 'redrive_attempt_duration_seconds_count{queue="default",task="echo",outcome="completed"} 1' in \
                worker.get("/metrics", prometheus)[1]
            assert 'redrive_attempt_duration_seconds_count{queue="default",task="echo"' not in serve.get("/metrics", prometheus)[1]
