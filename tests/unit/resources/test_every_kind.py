"""What every resource kind promises, whatever it is for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi import APIRouter
from kind_scenes import EXAMPLE, scene_of
from served_routes import doing, served
from tests.support.kinds import NAME, KindScene

from slackwater.cli.resource_columns import columns_of
from slackwater.events.resource_changed import ResourceChanged
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.resources import catalog
from slackwater.resources.diff import changes
from slackwater.resources.history import change_text
from slackwater.resources.kind import Kind, loaded
from slackwater.resources.names import CLUSTER_AUTHOR
from slackwater.resources.reference import reference_page
from slackwater.resources.store import KEPT_GENERATIONS, StoredResource
from slackwater.runtime.problem_codes import PROBLEMS
from slackwater.runtime.resource_routes import resource_router
from slackwater.store.migrations import Schema

KINDS = (*catalog.KINDS, EXAMPLE)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
PARENTS: Mapping[str, Mapping[str, Any]] = {
    "NodeQOS": {"mode": "observe"},
    "PredictPolicy": {"protectLSR": True},
    "ColocationStrategy": {"enable": False},
    "ElasticQuota": {"queuePolicy": "StrictFIFO"},
    "ArbitrationArgs": {"interval": "10s"},
    "MaintenanceWindow": {"minutes": 90},
}
"""A change of the parent of each kind."""
with_parent = pytest.mark.parametrize("kind", [one for one in KINDS if one.parent], ids=lambda kind: kind.name)


async def opened(kind: Kind) -> KindScene:
    return await scene_of(kind).open()


@every_kind
async def test_a_document_is_made_read_and_removed_and_its_generations_go_on(kind: Kind) -> None:
    scene = await opened(kind)
    url = f"{kind.path}/{NAME}"
    async with scene.client() as client:
        missing = await client.get(url)
        assert (missing.status_code, missing.json()["code"]) == (404, kind.code("not_found"))
        made = await client.put(url, json=scene.document())
        assert (made.status_code, made.headers["etag"]) == (201, '"1"'), made.text
        assert made.json()["metadata"]["changedBy"] == "local"
        read = await client.get(url)
        assert read.json()["spec"].keys() >= scene.kind.example.keys()
        assert (await client.get(url, headers={"if-none-match": '"1"'})).status_code == 304
        listed = [one["metadata"]["name"] for one in (await client.get(kind.path)).json()["items"]]
        assert listed == [*([kind.parent] if kind.parent else []), NAME]
        again = await client.put(url, json=read.json())
        assert (again.status_code, again.headers["etag"]) == (200, '"1"'), "the same spec changes nothing"
        gone = await client.delete(url, headers={"if-match": '"1"'})
        assert gone.json()["metadata"]["name"] == NAME
        assert (await client.delete(url)).status_code == 404
        anew = await client.put(url, json=scene.document())
        assert (anew.status_code, anew.headers["etag"]) == (201, '"3"'), "a generation never means two things"


@every_kind
async def test_its_generations_are_kept_with_author_and_change(kind: Kind) -> None:
    scene = await opened(kind)
    url = f"{kind.path}/{NAME}"
    model = kind.model_of(NAME)
    async with scene.client() as client:
        missing = await client.get(f"{url}/history")
        assert (missing.status_code, missing.json()["code"]) == (404, kind.code("not_found"))
        await scene.change.put(model.parse(scene.document()), by="ann")
        await scene.change.put(model.parse(scene.document()), by="bob")
        await scene.change.put(model.parse(scene.document()), by="bob", dry_run=True)
        await scene.change.delete(NAME, by="cid", dry_run=True)
        await scene.change.delete(NAME, by="cid")
        kept = (await client.get(f"{url}/history")).json()["items"]
        assert [(one["generation"], one["author"], one["deleted"]) for one in kept] == [
            (2, "cid", True),
            (1, "ann", False),
        ], "the newest first; what changes nothing and a dry run leave none"
        assert [change_text(one) for one in kept] == ["deleted", "created"]
        assert (kept[0]["document"], kept[1]["document"]["metadata"]["name"]) == (None, NAME)
        for place in range(KEPT_GENERATIONS):
            await (scene.change.delete(NAME) if place % 2 else scene.change.put(model.parse(scene.document())))
        kept = (await client.get(f"{url}/history")).json()["items"]
        assert [one["generation"] for one in kept] == [*range(KEPT_GENERATIONS + 2, 2, -1)]
        assert kept[-1]["changes"] is None, "the generation before is not kept"


@every_kind
async def test_each_change_is_an_event_and_what_changes_nothing_is_none(kind: Kind) -> None:
    scene = await opened(kind)
    scene.store.published.clear()
    model, document = kind.model_of(NAME), scene.document()
    await scene.change.put(model.parse(document), by="ann", dry_run=True)
    await scene.change.put(model.parse(document), by="ann")
    await scene.change.put(model.parse(document), by="bob")
    await scene.change.delete(NAME, dry_run=True)
    await scene.change.delete(NAME, by="cid")
    made, gone = [event.data for event in scene.store.published]
    assert (made.service, made.kind, made.name, made.generation) == (kind.service, kind.name, NAME, 1)
    assert (made.author, made.deleted) == ("ann", False)
    assert made.document is not None
    assert made.document["metadata"] == {"name": NAME, "generation": 1, "changedBy": "ann"}
    assert (gone.generation, gone.author, gone.deleted, gone.document) == (2, "cid", True, None)
    assert made.key() == gone.key() == f"{kind.name}/{NAME}"


@every_kind
async def test_the_history_of_what_an_older_version_stored_begins_at_the_start(kind: Kind) -> None:
    scene = scene_of(kind)
    row = kind.model_of(NAME).parse(scene.document()).changed_to(4, "ann")
    scene.store.rows[NAME] = StoredResource(NAME, 4, row.stored())
    await scene.open()
    await scene.open()
    async with scene.client() as client:
        kept = (await client.get(f"{kind.path}/{NAME}/history")).json()["items"]
    assert [(one["generation"], one["author"]) for one in kept] == [(4, "ann")]
    said = [event.data for event in scene.store.published if event.data.name == NAME]
    assert [(data.generation, data.author, data.document) for data in said] == [(4, "ann", row.stored())]


@every_kind
async def test_what_was_read_must_still_be_there(kind: Kind) -> None:
    scene = await opened(kind)
    url = f"{kind.path}/{NAME}"
    async with scene.client() as client:
        refused = await client.put(url, json=scene.document(), headers={"if-match": '"1"'})
        assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
        await client.put(url, json=scene.document())
        refused = await client.put(url, json=scene.document(generation=7))
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        refused = await client.delete(url, headers={"if-match": '"7"'})
        assert refused.status_code == 412


@every_kind
async def test_a_dry_run_shows_and_stores_nothing(kind: Kind) -> None:
    scene = await opened(kind)
    url, before = f"{kind.path}/{NAME}?dryRun=true", dict(scene.store.rows)
    async with scene.client() as client:
        tried = await client.put(url, json=scene.document())
        assert tried.status_code == 200, tried.text
        assert tried.json()["document"]["metadata"]["generation"] == 1
        fields = [change["field"] for change in tried.json()["changes"]]
        assert "kind" in fields
        assert scene.store.rows == before
        await client.put(f"{kind.path}/{NAME}", json=scene.document())
        tried = await client.delete(url)
        assert tried.json().get("document") is None
        assert [change["field"] for change in tried.json()["changes"]] == fields
        assert scene.store.rows[NAME].document is not None


@every_kind
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"spec": {"fieldThatIsNot": 1}}, "fieldThatIsNot"),
        ({"colour": "red"}, "colour"),
        ({"metadata": {"name": "Not A Name"}}, "metadata.name"),
        ({"apiVersion": "slackwater.io/v9"}, "apiVersion"),
        ({"kind": "Another"}, "kind"),
    ],
)
async def test_a_wrong_field_is_named(kind: Kind, wrong: dict[str, object], field: str) -> None:
    scene = await opened(kind)
    document = scene.document()
    for name, value in wrong.items():
        document[name] = {**document[name], **value} if isinstance(value, dict) else value
    with pytest.raises(InvalidInput, match=field):
        kind.model_of(NAME).parse(document)
    async with scene.client() as client:
        answer = await client.put(f"{kind.path}/{NAME}", json=document)
        assert answer.status_code == 422
        assert field in answer.text
        other = await client.put(f"{kind.path}/silver", json=scene.document())
        assert (other.status_code, other.json()["field"]) == (422, "metadata.name")


@with_parent
async def test_the_parent_is_always_there(kind: Kind) -> None:
    scene = await opened(kind)
    async with scene.client() as client:
        assert (await client.get(f"{kind.path}/{kind.parent}")).headers["etag"] == '"1"'
        refused = await client.delete(f"{kind.path}/{kind.parent}")
        assert (refused.status_code, refused.json()["code"]) == (409, kind.code("needed"))
    async with scene_of(kind).client() as client:
        answer = await client.get(f"{kind.path}/{kind.parent}")
        assert answer.status_code == 503, "before the first load"


@with_parent
async def test_the_parent_is_what_the_settings_make_when_its_resource_is_deleted_in_a_cluster(kind: Kind) -> None:
    scene = await opened(kind)
    name = kind.parent
    first = await scene.change.read(name)
    model = loaded(kind.parent_model or kind.model)
    spec = {**first.stored()["spec"], **PARENTS.get(kind.name, {})}
    await scene.change.put(model.parse({"metadata": {"name": name}, "spec": spec}), by=CLUSTER_AUTHOR)
    assert (await scene.change.read(name)).metadata.generation == 2
    tried = await scene.change.delete(name, by=CLUSTER_AUTHOR, dry_run=True)
    assert tried.document is not None
    assert (await scene.change.read(name)).metadata.generation == 2
    done = await scene.change.delete(name, by=CLUSTER_AUTHOR)
    after = await scene.change.read(name)
    assert done.before["spec"] == model.parse({"metadata": {"name": name}, "spec": spec}).stored()["spec"]
    assert (after.stored()["spec"], after.metadata.generation) == (first.stored()["spec"], 3)
    assert after.metadata.changed_by == first.metadata.changed_by
    assert scene.in_force.now.generations[name] == 3, "it is in force, not only stored"
    await scene.in_force.load()
    assert (await scene.change.read(name)).metadata.generation == 3, "a start keeps it"


@every_kind
async def test_what_goes_bad_keeps_its_last_good_generation_until_it_is_mended(kind: Kind) -> None:
    scene = await opened(kind)
    heard: list[dict[str, str]] = []
    scene.in_force.on_read(lambda problems: heard.append(dict(problems)))
    await scene.change.put(kind.model_of(NAME).parse(scene.document()), by="ann")
    good = scene.in_force.now.values[NAME]
    scene.store.rows[NAME] = StoredResource(NAME, 2, {"metadata": {"name": NAME}, "spec": {"future": True}})
    await scene.in_force.catch_up()
    assert scene.in_force.now.values[NAME] == good
    assert list(heard[-1]) == [NAME]
    async with scene.client() as client:
        assert (await client.get(kind.path)).status_code == 200
        mended = await client.put(f"{kind.path}/{NAME}", json=scene.document(), headers={"if-match": '"2"'})
        assert (mended.status_code, mended.headers["etag"]) == (200, '"3"'), mended.text
    assert heard[-1] == {}


@every_kind
async def test_another_replica_follows_and_an_outage_changes_nothing(kind: Kind) -> None:
    here = await opened(kind)
    there = scene_of(kind, store=here.store)
    await there.open()
    notified: list[int] = []
    there.in_force.on_change(lambda: notified.append(1))
    await here.change.put(kind.model_of(NAME).parse(here.document()))
    await there.in_force.catch_up()
    assert there.in_force.now == here.in_force.now
    await there.in_force.catch_up()
    assert notified == [1], "once"
    here.store.away = True
    with pytest.raises(Unavailable):
        await there.in_force.catch_up()
    assert there.in_force.now == here.in_force.now


@every_kind
async def test_what_is_stored_and_not_followed_yet_is_a_success_with_a_warning(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await opened(kind)
    url, read_all = f"{kind.path}/{NAME}", scene.store.read_all

    async def away() -> list[StoredResource]:
        raise Unavailable('the "database" went away')

    async with scene.client() as client:
        monkeypatch.setattr(scene.store, "read_all", away)
        made = await client.put(url, json=scene.document())
        warned = "199 - \"stored, but not followed yet: the 'database' went away\""
        assert (made.status_code, made.headers["warning"]) == (201, warned)
        gone = await client.delete(url)
        assert (gone.status_code, gone.headers["warning"]) == (200, warned)
        monkeypatch.setattr(scene.store, "read_all", read_all)
        again = await client.put(url, json=scene.document())
        assert (again.status_code, again.headers["etag"], "warning" in again.headers) == (201, '"3"', False)


@every_kind
async def test_what_its_author_is_to_know_of_a_document_is_said_when_it_is_tried_too(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await opened(kind)
    monkeypatch.setattr(scene.change.hooks, "notice", lambda value: "nothing has it")
    async with scene.client() as client:
        for query in ("?dryRun=true", ""):
            made = await client.put(f"{kind.path}/{NAME}{query}", json=scene.document())
            assert made.headers["warning"] == '299 - "nothing has it"', made.text


@every_kind
async def test_two_documents_have_not_the_same_unique_value(kind: Kind) -> None:
    if kind.unique is None:
        return
    scene = await opened(kind)
    async with scene.client() as client:
        await client.put(f"{kind.path}/{NAME}", json=scene.document())
        taken = await client.put(f"{kind.path}/silver", json=scene.document(name="silver"))
        assert (taken.status_code, taken.json()["code"], taken.json()["field"]) == (
            409, kind.unique.code, kind.unique.field,
        )  # fmt: skip


@every_kind
async def test_several_are_stored_together_or_none(kind: Kind) -> None:
    if not kind.together:
        return
    scene = await opened(kind)
    good, bad = scene.document(), scene.document(generation=9, name="silver")
    async with scene.client() as client:
        assert (await client.post(kind.path, json={"items": [good, bad]})).status_code == 409
        assert NAME not in scene.store.rows
        assert (await client.post(kind.path, json={"items": [good, good]})).status_code == 422
        stored = await client.post(kind.path, json={"items": [good, scene.document(name="silver")]})
        assert [one["metadata"]["generation"] for one in stored.json()["items"]] == [1, 1]


@every_kind
async def test_every_column_has_text_and_a_document_differs_from_itself_in_nothing(kind: Kind) -> None:
    scene = await opened(kind)
    done = await scene.change.put(kind.model_of(NAME).parse(scene.document()))
    shown = await scene.change.read(NAME)
    cells = [column.text(shown.model_dump(mode="json", by_alias=True)) for column in columns_of(kind)]
    assert cells[0] == NAME
    assert all(isinstance(cell, str) and cell for cell in cells)
    assert changes(done.after, shown.document()) == ()


@every_kind
def test_the_command_line_applies_shows_compares_and_deletes(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "KINDS", KINDS)
    document = yaml.safe_dump(yaml.safe_load(reference_of(kind)))
    title = f"{kind.noun}/{NAME}"

    async def routers() -> list[APIRouter]:
        return [resource_router((await opened(kind)).change)]

    with served(routers) as url:
        do = doing(url, tmp_path, monkeypatch)
        assert do("diff", document).exit_code == 3
        assert do("apply", document, "--dry-run").stdout.startswith(f"{title} would be created\n")
        assert do("apply", document).stdout == f"{title} created\n"
        assert do("apply", document).stdout == f"{title} unchanged\n"
        assert do("diff", document).exit_code == 0
        for noun in kind.names:
            rows = do("get", noun).stdout.splitlines()
            assert rows[0].split()[0] == "NAME"
            assert [row.split()[0] for row in rows[1:]] == [*([kind.parent] if kind.parent else []), NAME]
        assert NAME in do("describe", f"{kind.plural}/{NAME}").stdout
        assert [line.split()[-1] for line in do("history", title).stdout.splitlines()] == ["CHANGE", "created"]
        assert do("delete", document).stdout == f"{title} deleted\n"
        assert f"{title} does not exist" in do("delete", document).stderr


@pytest.mark.parametrize("service", sorted({kind.service for kind in catalog.KINDS}))
def test_a_service_with_kinds_publishes_their_changes_and_has_their_tables(service: str) -> None:
    package = import_module(f"slackwater.{service}")
    assert ResourceChanged.TYPE in package.PUBLISHES
    made = [file.read_text() for file in Schema.of(service).versions.glob("*.py")]
    assert any("create_resource_tables(op)" in text or "create_service_tables(op)" in text for text in made)


@pytest.mark.parametrize("kind", catalog.KINDS, ids=lambda kind: kind.name)
def test_its_problem_codes_are_explained(kind: Kind) -> None:
    codes = {kind.code("not_found")} | ({kind.code("needed")} if kind.parent else set())
    assert codes | ({kind.unique.code} if kind.unique else set()) <= PROBLEMS.keys()


@every_kind
async def test_the_api_describes_its_routes(kind: Kind) -> None:
    scene = scene_of(kind)
    async with scene.client() as client:
        described = (await client.get("/v1/openapi.json")).json()
    paths, schemas = described["paths"], described["components"]["schemas"]
    assert set(paths[kind.path]) == ({"get", "post"} if kind.together else {"get"})
    assert set(paths[f"{kind.path}/{{name}}"]) == {"get", "put", "delete"}
    assert set(paths[f"{kind.path}/{{name}}/history"]) == {"get"}
    assert any(name.removesuffix("-Output").removesuffix("-Input") == kind.model_of().__name__ for name in schemas)


def reference_of(kind: Kind) -> str:
    """The example of the kind on the reference page."""
    return reference_page().split(f"## {kind.name}\n")[1].split("```yaml\n")[1].split("```")[0]


def test_the_page_about_a_new_kind_shows_the_example() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs/how-to/add-a-kind.md").read_text()
    files = ("example_kind.py", "example/maintenance_window.py", "test_example_kind.py")
    example = "\n".join((Path(__file__).parent / name).read_text() for name in files)
    blocks = [block.split("```")[0].strip("\n") for block in page.split("```python\n")[1:]]
    shown = [block for block in blocks if block in example]
    assert len(shown) == 3, "model, hooks and entry as they are in the example"
