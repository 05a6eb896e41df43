"""A message log in a DynamoDB table, and plain maps as attribute values."""

from langchain_convmem.logs.dynamodb.client import define_table
from langchain_convmem.logs.dynamodb.log import DynamoDBLog
from langchain_convmem.logs.dynamodb.values import to_dynamodb

__all__ = ["DynamoDBLog", "define_table", "to_dynamodb"]
