//! The clients of the table that wait for a server, and what looks like them.

mod support;

use adieu_check::Config;
use support::Project;

fn codes(text: &str) -> Vec<&'static str> {
    Project::python(text).codes()
}

#[test]
fn synchronous_clients_are_known() {
    for (text, code) in [
        (
            "import boto3\ns3 = boto3.client('s3')\nasync def f():\n    s3.put_object(Bucket='a')\n",
            "ADP102",
        ),
        (
            "import boto3\nasync def f():\n    boto3.resource('s3').Bucket('a').upload_file('b', 'c')\n",
            "ADP102",
        ),
        (
            "from openai import OpenAI\nclient = OpenAI()\nasync def f():\n    client.chat.completions.create(model='m')\n",
            "ADP102",
        ),
        (
            "import anthropic\nclass A:\n    def __init__(self):\n        self.client = anthropic.Anthropic()\n    async def f(self):\n        self.client.messages.create(model='m')\n",
            "ADP102",
        ),
        (
            "import stripe\nasync def f():\n    stripe.Customer.create(email='a')\n",
            "ADP102",
        ),
        (
            "from elasticsearch import Elasticsearch\nes = Elasticsearch()\nasync def f():\n    es.search(index='a')\n",
            "ADP106",
        ),
        (
            "from sqlmodel import Session\nasync def f(engine):\n    with Session(engine) as session:\n        session.exec(q)\n",
            "ADP106",
        ),
        (
            "from google.cloud import storage\nasync def f():\n    storage.Client().bucket('a').blob('b').upload_from_string('c')\n",
            "ADP102",
        ),
        (
            "import docker\nasync def f():\n    docker.from_env().containers.run('a')\n",
            "ADP102",
        ),
        (
            "from slack_sdk import WebClient\nclient = WebClient(token)\nasync def f():\n    client.chat_postMessage(text='a')\n",
            "ADP102",
        ),
        (
            "from kubernetes import client\nasync def f():\n    client.CoreV1Api().list_namespaced_pod('a')\n",
            "ADP102",
        ),
        (
            "from selenium import webdriver\nasync def f():\n    driver = webdriver.Chrome()\n",
            "ADP102",
        ),
        (
            "from playwright.sync_api import sync_playwright\nasync def f():\n    with sync_playwright() as p:\n        pass\n",
            "ADP102",
        ),
        (
            "import peewee\nclass User(peewee.Model):\n    pass\nasync def f():\n    User.create(name='a')\n",
            "ADP106",
        ),
        (
            "import peewee\nclass User(peewee.Model):\n    pass\nasync def f():\n    user = User()\n    user.save()\n",
            "ADP106",
        ),
        (
            "from django.db import models\nclass User(models.Model):\n    pass\nasync def f():\n    return User.objects.filter(id=1).first()\n",
            "ADP106",
        ),
        (
            "from django.db import models\nclass User(models.Model):\n    pass\nasync def f():\n    return User.objects.get(id=1)\n",
            "ADP106",
        ),
        (
            "import pandas as pd\nasync def f():\n    return pd.read_sql('select', engine)\n",
            "ADP106",
        ),
        (
            "import pandas as pd\nasync def f():\n    return pd.read_excel('a.xlsx')\n",
            "ADP104",
        ),
        (
            "import tempfile\nasync def f():\n    with tempfile.NamedTemporaryFile() as file:\n        return file.name\n",
            "ADP105",
        ),
        (
            "from celery.result import AsyncResult\nasync def f(id):\n    return AsyncResult(id).get(timeout=9)\n",
            "ADP111",
        ),
        (
            "import select\nasync def f(s):\n    select.select([s], [], [])\n",
            "ADP112",
        ),
        (
            "import zmq\ncontext = zmq.Context()\nsocket = context.socket(zmq.PULL)\nasync def f():\n    return socket.recv()\n",
            "ADP112",
        ),
        (
            "import os\nasync def f(pid):\n    os.waitpid(pid, 0o1000)\n",
            "ADP103",
        ),
        (
            "from concurrent.futures import ThreadPoolExecutor\nasync def f(work):\n    with ThreadPoolExecutor() as pool:\n        pool.submit(work)\n",
            "ADP110",
        ),
    ] {
        assert_eq!(codes(text), [code], "{text}");
    }
}

#[test]
fn asynchronous_namesakes_and_free_calls_are_left_alone() {
    for text in [
        "from openai import AsyncOpenAI\nclient = AsyncOpenAI()\nasync def f():\n    await client.chat.completions.create(model='m')\n",
        "import boto3\ns3 = boto3.client('s3')\nasync def f():\n    return s3.generate_presigned_url('get_object')\n",
        "import aioboto3\nasync def f():\n    async with aioboto3.Session().client('s3') as s3:\n        await s3.put_object(Bucket='a')\n",
        "import asyncio, boto3\ns3 = boto3.client('s3')\nasync def f():\n    await asyncio.to_thread(s3.put_object, Bucket='a')\n",
        "from slack_sdk.web.async_client import AsyncWebClient\nclient = AsyncWebClient(token)\nasync def f():\n    await client.chat_postMessage(text='a')\n",
        "from confluent_kafka import Consumer\nconsumer = Consumer({})\nasync def f():\n    consumer.poll(0)\n",
        "import zmq\nsocket = zmq.Context().socket(zmq.PULL)\nasync def f():\n    return socket.recv(zmq.NOBLOCK)\n",
        "import zmq.asyncio\nsocket = zmq.asyncio.Context().socket(zmq.PULL)\nasync def f():\n    return await socket.recv()\n",
        "from playwright.async_api import async_playwright\nasync def f():\n    async with async_playwright() as p:\n        pass\n",
        "from django.db import models\nclass User(models.Model):\n    pass\nasync def f():\n    await User.objects.aget(id=1)\n    return User.objects.filter(id=1)\n",
        // What is awaited has ended, and nothing is left to wait for.
        "import asyncio\nfrom concurrent.futures import ThreadPoolExecutor\nasync def f(loop, work):\n    with ThreadPoolExecutor() as pool:\n        await loop.run_in_executor(pool, work)\n",
        "from concurrent.futures import ThreadPoolExecutor\nasync def lifespan(app):\n    with ThreadPoolExecutor() as app.pool:\n        yield\n",
        "import pandas as pd\nasync def f(rows):\n    return pd.DataFrame(rows)\n",
        "from elasticsearch import AsyncElasticsearch\nes = AsyncElasticsearch()\nasync def f():\n    await es.search(index='a')\n",
    ] {
        assert!(codes(text).is_empty(), "{text}: {:?}", codes(text));
    }
}

#[test]
fn a_module_of_the_project_is_not_the_package_of_its_name() {
    let project = Project::new()
        .file("stripe.py", "class Customer:\n    @staticmethod\n    def create(**kwargs):\n        return kwargs\n")
        .file("app.py", "import stripe\nasync def f():\n    stripe.Customer.create(email='a')\n");
    assert!(project.codes().is_empty());
}

/// `blocking` in the settings adds lines of the same form.
#[test]
fn the_settings_add_clients() {
    let config = |lines: &[&str]| Config {
        blocking: lines.iter().map(|line| (*line).to_owned()).collect(),
        ..Config::default()
    };
    let project = |lines: &[&str]| {
        Project::new()
            .file(
                "bank.py",
                "from billing import Client\n\nclient = Client()\n\ndef charge():\n    client.charge(1)\n",
            )
            .file("app.py", "from bank import charge, client\n\nasync def f():\n    charge()\n    client.close()\n")
            .config(config(lines))
    };
    assert_eq!(project(&[]).told(), [""; 0]);
    let found = project(&["ADP102 billing.Client().*", "! billing.Client().close"]);
    assert_eq!(found.told(), ["app.py:4 ADP102"]);
    let text = b"blocking = [\"ADP102 billing\"]\n";
    let error = Config::parse(text, false).expect_err("no call");
    assert_eq!(
        error,
        "`blocking`: `billing` is not a call, such as `billing.Client().charge` or `billing.Client().*`"
    );
}
