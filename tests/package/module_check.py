#!/usr/bin/env python3
"""module_check.py LIBRARY PROGRAM: tests python/plimsoll against a library of this build: the examples of its texts and of
docs/python.md, errors, types, what a notebook shows."""

import ast
import doctest
import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.path.abspath(sys.argv[2])
os.environ["PLIMSOLL_LIBRARY"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, str(ROOT / "python"))
sys.dont_write_bytecode = True

import plimsoll  # noqa: E402
from plimsoll import _answers, _draw, _library  # noqa: E402

CASE = {"model": "qwen2.5-7b", "lora_rank": 16, "seq": 2048, "gpu": "4090"}


def program(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True).stdout


class Requests(unittest.TestCase):
    def test_answers_are_those_of_the_command(self):
        said = json.loads(program("estimate", "--model", "qwen2.5-7b", "--lora-rank", "16", "--seq", "2048", "--gpu", "4090", "--json"))
        self.assertEqual(plimsoll.estimate(**CASE, timeline=0).json, said)

    def test_paths_sizes_and_flags(self):
        e = plimsoll.estimate(pathlib.Path("qwen2.5-7b"), gpu=24 * 2**30, checkpoint=True, liger=None)
        self.assertEqual(e.budget_bytes, 24 * 2**30)
        self.assertTrue(plimsoll.estimate("qwen2.5-7b", gpu="80GiB", lora_rank=8, checkpoint=False).fits)

    def test_a_configuration_in_place_of_a_name(self):
        config = {
            "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 512,
        }  # fmt: skip
        small, large = (plimsoll.estimate({**config, "num_hidden_layers": n}) for n in (2, 4))
        self.assertIsNone(small.fits)
        self.assertLess(small.params, large.params)

    def test_what_is_no_json(self):
        with self.assertRaises(TypeError):
            plimsoll.estimate("qwen2.5-7b", seq=object())

    def test_threads(self):
        found = []
        threads = [threading.Thread(target=lambda: found.append(plimsoll.estimate(**CASE).needed_bytes)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [plimsoll.estimate(**CASE).needed_bytes] * 4)

    def test_options_are_those_of_the_program(self):
        written = subprocess.run(
            [sys.executable, ROOT / "tools/python_options.py", PROGRAM], capture_output=True, text=True, check=True
        ).stdout
        self.assertEqual((ROOT / "python/plimsoll/_options.py").read_text(), written, "run make bless")


class Errors(unittest.TestCase):
    def error_of(self, call, *arguments, **options):
        with self.assertRaises(plimsoll.Error) as raised:
            call(*arguments, **options)
        return raised.exception

    def test_unknown_option(self):
        error = self.error_of(plimsoll.estimate, "qwen2.5-7b", lora_ranks=2)
        self.assertEqual(error.hint, 'did you mean "lora_rank"?')
        self.assertIsNone(error.file)
        self.assertIsNone(error.byte)

    def test_file_and_byte(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            path.write_text('{"model_type": "llama",, }')
            error = self.error_of(plimsoll.estimate, path)
            self.assertEqual((error.file, error.byte), (str(path), 24))
            self.assertIn(f"--> {path}, byte 24", str(error))

    def test_missing_files(self):
        self.assertIn("/no/such.yaml", str(self.error_of(plimsoll.plan, "/no/such.yaml", gpu="24GiB")))
        self.assertIn("/no/such.pickle", str(self.error_of(plimsoll.replay, "/no/such.pickle")))

    def test_nothing_to_plan(self):
        self.assertIn("files", self.error_of(plimsoll.plan, gpu="24GiB").message)

    def test_a_library_without_a_function(self):
        self.assertIn("has no plimsoll_nonsense", self.error_of(_library.ask, "nonsense", b"{}").message)

    def test_errors_go_between_processes(self):
        error = self.error_of(plimsoll.estimate, "qwen2.5-7c")
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.message, again.hint), (error.message, error.hint))

    def test_a_missing_library(self):
        told = subprocess.run(
            [sys.executable, "-c", "import plimsoll"], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "PLIMSOLL_LIBRARY": "/no/such.so"},
        ).stderr  # fmt: skip
        self.assertIn("ImportError: plimsoll's library cannot be loaded: /no/such.so", told)


class Plans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.chdir(ROOT)
        cls.plan = plimsoll.plan("tests/fixtures/seed0/start_baseline.sh", gpu="24564MiB")

    def test_a_plan(self):
        self.assertTrue(self.plan.fits)
        self.assertFalse(self.plan.before.fits)
        self.assertLessEqual(self.plan.chosen.prediction.needed_bytes, self.plan.budget_bytes)
        self.assertEqual([change.knob for change in self.plan.changes], ["liger", "alloc_conf"])
        self.assertGreater(len(self.plan.ladder), 2)

    def test_a_row_can_be_looked_at_further(self):
        for row in self.plan.ladder[:2]:
            again = row.estimate()
            self.assertEqual(again.needed_bytes, row.prediction.needed_bytes)
            self.assertTrue(again.timeline.columns)

    def test_several_gpus(self):
        with self.assertRaises(plimsoll.Error):
            plimsoll.plan(model="qwen2.5-0.5b", gpu="8GiB,4090")

    def test_nothing_fits(self):
        plan = plimsoll.plan(model="llama-3.1-70b", gpu="8GiB")
        self.assertFalse(plan.fits)
        self.assertIn("nothing fits", repr(plan))
        xml.etree.ElementTree.fromstring(plan._repr_svg_())


class Snapshots(unittest.TestCase):
    PATH = ROOT / "tests/truth/snapshots/varlen-cap-oom.pickle.xz"

    def test_a_report_is_that_of_the_command(self):
        said = json.loads(program("replay", str(self.PATH), "--json"))
        self.assertEqual(plimsoll.replay(self.PATH).json, said)

    def test_replaying(self):
        with plimsoll.Snapshot(self.PATH) as snapshot:
            recorded = snapshot.report()
            snapshot.replay(alloc_conf="expandable_segments:True")
            self.assertNotEqual(snapshot.report().figures, recorded.figures)
            snapshot.replay()
            self.assertEqual(snapshot.report().figures, recorded.figures)

    def test_parts_of_it(self):
        with plimsoll.Snapshot(self.PATH) as snapshot:
            line = snapshot.timeline(columns=50, first=100, end=1100)
            self.assertEqual((line.columns, len(line.reserved_bytes), len(line.holders)), (50, 50, 50))
            self.assertEqual(line.json["first"], 100)
            self.assertTrue(snapshot.moment(1000).json["holders"])

    def test_a_leak(self):
        report = plimsoll.replay(self.PATH.with_name("stacks-leak-logits.pickle.xz"))
        self.assertIn("LEAK 31.2 MiB per step at modeling_llama.py:480 (forward)", repr(report))
        self.assertIn("LEAK", report._repr_svg_())
        with plimsoll.Snapshot(self.PATH.with_name("stacks-leak-logits.pickle.xz")) as snapshot:
            self.assertIn("modeling_llama.py:480 (forward)", repr(snapshot.moment(5000)))

    def test_a_closed_one(self):
        snapshot = plimsoll.Snapshot(self.PATH)
        snapshot.close()
        snapshot.close()
        with self.assertRaises(plimsoll.Error):
            snapshot.report()


def prefixes(items):
    return [items[:n] for n in range(len(items) + 1)]


class Shown(unittest.TestCase):
    def pictures(self):
        e = plimsoll.estimate(**CASE)
        yield from (e, e.timeline, plimsoll.estimate("llama-3.2-1b"), plimsoll.replay(Snapshots.PATH))
        yield plimsoll.plan(model="llama-3.2-1b", seq=2048, gpu="3060")

    def test_pictures_are_well_formed(self):
        for answer in self.pictures():
            with self.subTest(type(answer).__name__):
                svg = xml.etree.ElementTree.fromstring(answer._repr_svg_())
                _, _, width, height = map(float, svg.get("viewBox").split())
                for rect in svg.iter("{http://www.w3.org/2000/svg}rect"):
                    x, y, w, h = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
                    self.assertTrue(0 <= x and x + w <= width + 0.2 and 0 <= y and y + h <= height, rect.attrib)

    def test_the_bar_is_the_need(self):
        e = plimsoll.estimate(**CASE, timeline=0)
        svg = xml.etree.ElementTree.fromstring(e._repr_svg_())
        bar = [r for r in svg.iter("{http://www.w3.org/2000/svg}rect") if r.get("height") == "22"]
        self.assertAlmostEqual(sum(float(r.get("width")) for r in bar), 720, delta=1)

    def test_the_curve_is_the_timeline(self):
        e = plimsoll.estimate(**CASE)
        paths = [p.get("d") for p in xml.etree.ElementTree.fromstring(e.timeline._repr_svg_()).iter() if "h" in p.get("d", "")]
        areas = [d for d in paths if d.endswith("Z")]
        self.assertEqual(len(areas), sum(any(values) for values in e.timeline.parts.values()))
        for d in paths:  # there and back
            moved = sum(float(x) for x in re.findall(r"h(-?[\d.]+)", d))
            self.assertAlmostEqual(moved, 0 if d in areas else 720, places=6)
        # The line reaches the top of the picture where the most is reserved.
        line = next(d for d in paths if d not in areas)
        y = float(line[1:].split("h")[0].split()[1])
        lowest = min(y + sum(map(float, moves)) for moves in prefixes(re.findall(r"v(-?[\d.]+)", line)))
        self.assertAlmostEqual(lowest, 24, delta=0.2)

    def test_texts_are_escaped(self):
        self.assertIn("&lt;b&gt;", _draw.page("", ["<b>"]))
        self.assertIn("&lt;b&gt;", _draw.table(("x",), [("<b>",)]))

    def test_sizes_are_those_of_the_program(self):
        for count, text in ((0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (250 * 2**20, "250 MiB"), (2**34, "16.0 GiB")):
            self.assertEqual(_answers.size(count), text)


class Sources(unittest.TestCase):
    def test_python_3_9_reads_them(self):
        for path in (ROOT / "python/plimsoll").glob("*.py"):
            ast.parse(path.read_text(), str(path), feature_version=(3, 9))

    def test_version(self):
        self.assertEqual(f"plimsoll {plimsoll.__version__}\n", program("version"))


def examples():
    """The examples of the texts and of the manual, in a folder with the files that they name."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "tests/fixtures/seed0", folder, dirs_exist_ok=True)
        shutil.copy(Snapshots.PATH, f"{folder}/snapshot.pickle.xz")
        os.chdir(folder)
        results = [doctest.testmod(module, optionflags=doctest.ELLIPSIS) for module in (plimsoll, _library, _answers, _draw)]
        results.append(doctest.testfile(str(ROOT / "docs/python.md"), module_relative=False, optionflags=doctest.ELLIPSIS))
        os.chdir(ROOT)
    return sum(r.attempted for r in results), sum(r.failed for r in results)


def main():
    result = unittest.TextTestRunner(stream=sys.stdout).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    attempted, wrong = examples()
    failed = len(result.failures) + len(result.errors) + wrong
    print(f"{result.testsRun + attempted - failed} passed, {failed} failed")
    sys.exit(failed != 0)


main()
